/** The `object_…` operations (language 11.10). A bucket is made by the first `object_put`. */
import { type ObjectInfo, type ObjectStore, Objm } from '@nats-io/obj';
import type { JsonMap } from '../../../machines/json.ts';
import { failure, ToolRefusal } from '../errors.ts';
import { FieldProblem, fieldOf, requiredText, textOf } from '../fields.ts';
import { isNotFound, type NatsCall, notFound, ttlMs } from './operation.ts';
import { encodingOf, fromBytes, headersOf, headersToJson, toBytes } from './payload.ts';

export async function objectGet({ connection, fields, maxBytes }: NatsCall): Promise<JsonMap> {
  const place = placeOf(fields);
  const store = await opened(new Objm(connection), place.bucket);
  const info = (await store?.info(place.name)) ?? null;
  if (store === null || info === null || info.deleted) return notFound({ ...place, data: null });
  if (info.size > maxBytes) {
    throw new ToolRefusal(
      failure('logic', 'RESULT_TOO_LARGE', `the object has ${info.size} bytes, more than ${maxBytes}`),
    );
  }
  const bytes = await store.getBlob(place.name);
  if (bytes === null) return notFound({ ...place, data: null });
  return {
    status: 'success',
    ...place,
    ...fromBytes(bytes, encodingOf(fields), false),
    size: info.size,
    digest: info.digest,
  };
}

export async function objectPut({ connection, fields, limitMs }: NatsCall): Promise<JsonMap> {
  const place = placeOf(fields);
  const data = fieldOf(fields, 'data', 'value');
  if (data === undefined) throw new FieldProblem(`field 'data' is missing`);
  const stores = new Objm(connection);
  const ttl = ttlMs(fields);
  const store =
    (await opened(stores, place.bucket)) ??
    (await stores.create(place.bucket, ttl === null ? {} : { ttl: ttl * 1_000_000 }));
  const headers = headersOf(fields);
  const description = textOf(fields, 'description');
  const meta = { name: place.name, ...(headers && { headers }), ...(description !== undefined && { description }) };
  const info = await store.putBlob(meta, toBytes(data, encodingOf(fields)), { timeout: limitMs });
  return { status: 'success', ...infoToJson(info) };
}

export async function objectDelete({ connection, fields }: NatsCall): Promise<JsonMap> {
  const place = placeOf(fields);
  const store = await opened(new Objm(connection), place.bucket);
  const info = (await store?.info(place.name)) ?? null;
  if (store === null || info === null || info.deleted) return notFound(place);
  await store.delete(place.name);
  return { status: 'success', ...place };
}

export async function objectList({ connection, fields }: NatsCall): Promise<JsonMap> {
  const bucket = requiredText(fields, 'bucket');
  const store = await opened(new Objm(connection), bucket);
  if (store === null) return notFound({ bucket, objects: [] });
  const objects = (await store.list()).filter((info) => !info.deleted).map(infoToJson);
  return { status: 'success', bucket, objects, count: objects.length };
}

export async function objectInfo({ connection, fields }: NatsCall): Promise<JsonMap> {
  const place = placeOf(fields);
  const info = (await (await opened(new Objm(connection), place.bucket))?.info(place.name)) ?? null;
  return info === null || info.deleted ? notFound(place) : { status: 'success', ...infoToJson(info) };
}

function placeOf(fields: JsonMap): { bucket: string; name: string } {
  return { bucket: requiredText(fields, 'bucket'), name: requiredText(fields, 'name', 'key') };
}

function infoToJson(info: ObjectInfo): JsonMap {
  const { bucket, name, size, chunks, digest, mtime, description = null } = info;
  return { bucket, name, size, chunks, digest, modified_at: mtime, description, headers: headersToJson(info.headers) };
}

async function opened(stores: Objm, name: string): Promise<ObjectStore | null> {
  try {
    const store = await stores.open(name);
    await store.status();
    return store;
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}
