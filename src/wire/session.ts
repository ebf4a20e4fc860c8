/** Bodies of the session doors (api 2.18). */
import * as v from 'valibot';
import { integer, list, maybe, text, word } from './fields.ts';

const YEAR_SECONDS = 31_536_000;

export const newSession = v.object({
  subject: text(256, 1),
  email: maybe(text(320)),
  name: maybe(text(256)),
  roles: list(word('viewer', 'operator', 'admin'), 8),
  user_agent: maybe(text(1024)),
  ip: maybe(text(64)),
  ttl_seconds: maybe(integer(1, YEAR_SECONDS)),
});

export const createdSession = v.object({ session_token: v.string(), expires_at: v.string() });

export const sessionToken = text(512, 1);

export const sessionUser = v.object({
  user_id: v.string(),
  email: v.nullable(v.string()),
  display_name: v.nullable(v.string()),
  roles: v.array(v.string()),
});

export const sessionAnswer = v.object({
  status: v.literal('ok'),
  valid: v.boolean(),
  user: v.nullable(sessionUser),
  expires_at: v.nullable(v.string()),
  error: v.nullable(v.string()),
});

export const validityAnswer = v.object({
  valid: v.boolean(),
  user: v.nullable(sessionUser),
  expires_at: v.nullable(v.string()),
  message: v.string(),
});

export const accessAnswer = v.object({
  allowed: v.boolean(),
  user: v.nullable(sessionUser),
  playbook_path: v.nullable(v.string()),
  permission_type: v.nullable(v.string()),
  message: v.string(),
});
