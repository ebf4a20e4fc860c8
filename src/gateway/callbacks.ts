/**
 * What a worker or a program inside tells a client (api 2.19, `POST /api/internal/callback`). `request_id` is the client
 * id of a stream, with anything of the caller's own after a `/`, or the X-Request-Id of the call that started the
 * execution; `execution_id` finds the session that started it through this gateway. Needs the internal token.
 */
import type { IncomingMessage } from 'node:http';
import * as v from 'valibot';
import type { EventHub, Notice } from './event-hub.ts';
import { Misfits, Refusal } from './refusal.ts';
import type { RunWatch } from './run-watch.ts';
import { isSameText } from './session.ts';

const text = (max: number) =>
  v.pipe(
    v.string('must be text'),
    v.minLength(1, 'must not be empty'),
    v.maxLength(max, `must have at most ${max} characters`),
  );
const NO_ID = 'must be an id';
const id = v.union(
  [
    v.pipe(v.number(), v.safeInteger(NO_ID), v.minValue(1, NO_ID)),
    v.pipe(v.string(), v.regex(/^[1-9][0-9]{0,15}$/, NO_ID), v.transform(Number), v.safeInteger(NO_ID)),
  ],
  NO_ID,
);

const callback = v.object(
  {
    request_id: text(512),
    execution_id: v.nullish(id),
    step: v.nullish(text(256)),
    status: text(64),
    data: v.optional(v.unknown()),
    error: v.optional(v.unknown()),
  },
  'must be an object',
);

const FINAL = new Set(['completed', 'failed', 'cancelled', 'canceled', 'success', 'error']);
export const CALLBACK_BYTES_MAX = 1_048_576;

export interface CallbackAnswer {
  readonly status: 200 | 202;
  readonly body: { readonly delivered: boolean; readonly message: string };
}

function sentenceOf(issue: v.InferIssue<typeof callback>): string {
  const path = v.getDotPath(issue);
  if (path === null) return `body: ${issue.message}`;
  return issue.input === undefined ? `'${path}' is required` : `body.${path}: ${issue.message}`;
}

/** Throws Refusal. */
export function deliver(body: unknown, hub: EventHub, runs: Pick<RunWatch, 'ownerOf'>): CallbackAnswer {
  const read = v.safeParse(callback, body);
  if (!read.success) throw new Misfits([...new Set(read.issues.map(sentenceOf))]);
  const { request_id: requestId, execution_id: executionId, step, status, data, error } = read.output;
  const params = {
    request_id: requestId,
    execution_id: executionId ?? null,
    step: step ?? null,
    status,
    data: data ?? null,
    error: error ?? null,
  };
  const method = FINAL.has(status.toLowerCase()) ? 'playbook/result' : 'playbook/state';
  const notice: Notice = { method, params };
  const owner = runs.ownerOf({ requestId, ...(executionId == null ? {} : { executionId }) });
  const isDelivered =
    hub.toClient(requestId.split('/')[0] ?? '', notice) || (owner !== null && hub.toSession(owner, notice));
  return isDelivered
    ? { status: 200, body: { delivered: true, message: 'ok' } }
    : { status: 202, body: { delivered: false, message: 'No such client is connected here' } };
}

/** Throws Refusal `unauthenticated`. */
export function checkInternal(request: IncomingMessage, internalToken: string | null): void {
  const bearer = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
  const header = request.headers['x-session-token'];
  const given = [bearer, typeof header === 'string' ? header : undefined].filter((each) => each !== undefined);
  if (given.length === 0) throw new Refusal('unauthenticated', 'Missing authentication token');
  if (internalToken === null || !given.some((each) => isSameText(each, internalToken))) {
    throw new Refusal('unauthenticated', 'This needs the token of SVC_INTERNAL_TOKEN');
  }
}
