/** Bodies of the doors for service tokens (api 2.13). */
import * as v from 'valibot';
import { TOKEN_ROLES } from '../../machines/access.ts';
import { instant, maybe, word } from './fields.ts';
import { name } from './ids.ts';

export const newToken = v.object({ name, role: word(...TOKEN_ROLES), expires_at: maybe(instant) });

const token = {
  name: v.string(),
  role: v.string(),
  created_at: v.string(),
  expires_at: v.nullable(v.string()),
  last_used_at: v.nullable(v.string()),
  revoked_at: v.nullable(v.string()),
};

export const tokenList = v.object({ tokens: v.array(v.object(token)) });

export const createdToken = v.object({ ...token, token: v.string() });

export const revokedToken = v.object({
  status: v.literal('success'),
  name: v.string(),
  /** False: it had ended before. */
  revoked: v.boolean(),
});
