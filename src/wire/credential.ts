/** Stored credentials (api 2.8). `data` goes out only where it was asked for; everywhere else the key is absent or null. */
import * as v from 'valibot';
import type { Credential, CredentialService } from '../../actors/services.ts';
import { list, map, maybe, text } from './fields.ts';
import { name } from './ids.ts';

const type = text(64, 1);
const tags = v.union([list(text(128), 64), text(4096)], 'must be a list of texts or a comma list');

export const credentialBody = v.object({
  name,
  type: maybe(type),
  credential_type: maybe(type),
  data: map,
  /** Null removes it, absent keeps it. */
  schema: v.optional(v.nullable(map)),
  meta: maybe(map),
  description: maybe(text(4096)),
  tags: maybe(tags),
});

export const credentialPatch = v.object({
  type: maybe(type),
  credential_type: maybe(type),
  data: maybe(map),
  schema: v.optional(v.nullable(map)),
  meta: v.optional(v.nullable(map)),
  description: v.optional(v.nullable(text(4096))),
  tags: maybe(tags),
});

/** What a patch changes: absent fields stay; null takes schema, meta or description away and is absent elsewhere. */
export function toPatch(body: v.InferOutput<typeof credentialPatch>): Parameters<CredentialService['patch']>[1] {
  const { schema, meta, description } = body;
  const type = body.type ?? body.credential_type;
  return {
    ...(type == null ? {} : { type }),
    ...(body.data == null ? {} : { data: body.data }),
    ...(schema === undefined ? {} : { schema }),
    ...(meta === undefined ? {} : { meta }),
    ...(description === undefined ? {} : { description }),
    ...(body.tags == null ? {} : { tags: toTags(body.tags) }),
  };
}

export function toTags(given: string | readonly string[] | null | undefined): readonly string[] {
  const all = typeof given === 'string' ? given.split(',') : (given ?? []);
  return all.map((tag) => tag.trim()).filter((tag) => tag !== '');
}

const fields = {
  id: v.string(),
  name: v.string(),
  type: v.string(),
  description: v.nullable(v.string()),
  tags: v.array(v.string()),
  meta: v.nullable(map),
  schema: v.nullable(map),
  created_at: v.string(),
  updated_at: v.string(),
};

export const credential = v.object(fields);
export const savedCredential = v.object({ ...fields, data: v.null() });
export const revealedCredential = v.object({ ...fields, data: v.optional(map) });
export type RevealedCredential = v.InferOutput<typeof revealedCredential>;

export function credentialToWire(row: Credential): v.InferOutput<typeof credential> {
  return {
    id: row.id,
    name: row.name,
    type: row.type,
    description: row.description,
    tags: [...row.tags],
    meta: row.meta,
    schema: row.schema,
    created_at: row.createdAt,
    updated_at: row.updatedAt,
  };
}
