/** The `kv_…` operations (language 11.10). A bucket is made by the first `kv_put`; `ttl` holds for a bucket made here. */
import { type KV, Kvm } from '@nats-io/kv';
import type { Json, JsonMap } from '../../../machines/json.ts';
import { fieldOf, requiredText, textOf } from '../fields.ts';
import { isNotFound, type NatsCall, notFound, ttlMs } from './operation.ts';
import { encodingOf, fromBytes, toBytes } from './payload.ts';

/** The most keys one answer lists. */
const maxKeys = 100_000;

export async function kvGet({ connection, fields }: NatsCall): Promise<JsonMap> {
  const place = { bucket: requiredText(fields, 'bucket'), key: requiredText(fields, 'key') };
  const entry = await withBucket(new Kvm(connection), place.bucket, (kv) => kv.get(place.key));
  if (entry === null || entry.operation !== 'PUT') return notFound({ ...place, value: null });
  const { data: value } = fromBytes(entry.value, encodingOf(fields), true);
  return { status: 'success', ...place, value, revision: entry.revision, created_at: entry.created.toISOString() };
}

export async function kvPut({ connection, fields, limitMs }: NatsCall): Promise<JsonMap> {
  const place = { bucket: requiredText(fields, 'bucket'), key: requiredText(fields, 'key') };
  const bytes = toBytes(fieldOf(fields, 'value', 'data') ?? null, encodingOf(fields));
  const buckets = new Kvm(connection);
  const kv = (await opened(buckets, place.bucket)) ?? (await buckets.create(place.bucket, newBucket(fields)));
  const revision = await kv.put(place.key, bytes, { timeout: limitMs });
  return { status: 'success', ...place, revision };
}

function newBucket(fields: JsonMap) {
  const ttl = ttlMs(fields);
  const description = textOf(fields, 'description');
  return { ...(ttl !== null && { ttl }), ...(description !== undefined && { description }) };
}

export async function kvDelete({ connection, fields }: NatsCall): Promise<JsonMap> {
  const place = { bucket: requiredText(fields, 'bucket'), key: requiredText(fields, 'key') };
  const done = await withBucket(new Kvm(connection), place.bucket, async (kv) => {
    const entry = await kv.get(place.key);
    if (entry === null || entry.operation !== 'PUT') return null;
    await kv.delete(place.key);
    return true;
  });
  return done === null ? notFound(place) : { status: 'success', ...place };
}

/** Takes the history of a key away as well; also of one that was deleted before. */
export async function kvPurge({ connection, fields }: NatsCall): Promise<JsonMap> {
  const place = { bucket: requiredText(fields, 'bucket'), key: requiredText(fields, 'key') };
  const done = await withBucket(new Kvm(connection), place.bucket, async (kv) => {
    if ((await kv.get(place.key)) === null) return null;
    await kv.purge(place.key);
    return true;
  });
  return done === null ? notFound(place) : { status: 'success', ...place };
}

export async function kvKeys({ connection, fields }: NatsCall): Promise<JsonMap> {
  const bucket = requiredText(fields, 'bucket');
  const pattern = textOf(fields, 'pattern');
  const keys = await withBucket(new Kvm(connection), bucket, async (kv) => {
    const found: Json[] = [];
    for await (const key of await kv.keys(pattern === undefined || pattern === '' ? '>' : pattern)) {
      found.push(key);
      if (found.length >= maxKeys) break;
    }
    return found.sort();
  });
  return keys === null ? notFound({ bucket, keys: [] }) : { status: 'success', bucket, keys, count: keys.length };
}

/** Null where the bucket does not exist. */
async function withBucket<T>(buckets: Kvm, name: string, use: (kv: KV) => Promise<T | null>): Promise<T | null> {
  const kv = await opened(buckets, name);
  return kv === null ? null : use(kv);
}

async function opened(buckets: Kvm, name: string): Promise<KV | null> {
  try {
    const kv = await buckets.open(name);
    // Opening alone asks nobody.
    await kv.status();
    return kv;
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}
