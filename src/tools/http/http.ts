/**
 * Kind `http` (language 11.1): one exchange with a server, redirects included, under one clock. A status outside
 * 200-299 is a failure that still carries the whole answer.
 */
import { STATUS_CODES } from 'node:http';
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { isMeantFor } from '../credentials.ts';
import { type Deadline, spellSeconds, startDeadline } from '../deadline.ts';
import { classifyHttpStatus, classifyNetwork, type FailureExtra, failure } from '../errors.ts';
import { FieldProblem, flagOf, textOf } from '../fields.ts';
import { parseJson } from '../json-text.ts';
import type { Tool, ToolCall, ToolFailure, ToolOutcome } from '../tool.ts';
import { authHeaders, type TokenSource } from './authorization.ts';
import { EgressDenied } from './egress.ts';
import { type HttpMessage, readMessage } from './message.ts';
import { BodyTooLarge, type Outbound, type OutboundResponse, RequestRefused } from './outbound.ts';
import { TokenRefused } from './tokens.ts';

/** The time of an exchange when the task names none, in milliseconds. */
export const defaultHttpTimeoutMs = 30_000;

/** Credentials that are exchanged for a token. */
const FETCHED_TYPES: ReadonlySet<string> = new Set(['oauth2', 'service_account', 'google_service_account', 'gcp_adc']);

export interface HttpOptions {
  readonly outbound: Outbound;
  readonly tokens: TokenSource;
  readonly version: string;
}

/** An http tool; closing it is the owner of `outbound`'s business. */
export function createHttp(options: HttpOptions): Tool {
  return {
    kind: 'http',
    async run(call) {
      const message = readMessage(call.fields);
      const limitMs = call.timeoutMs ?? defaultHttpTimeoutMs;
      using deadline = startDeadline(limitMs, call.signal);
      const startedAt = performance.now();
      const span = call.trace?.request({ method: message.method, host: message.url.host });
      try {
        const { headers: secrets, warnings } = await authorize(call, message.url, options.tokens, deadline.signal);
        const answer = await options.outbound.send({
          ...message,
          headers: {
            'user-agent': `callboard/${options.version}`,
            accept: '*/*',
            'accept-encoding': 'gzip, deflate, br',
            ...span?.headers,
            ...secrets,
            ...message.headers,
          },
          secretHeaders: Object.keys(secrets),
          followRedirects: flagOf(call.fields, true, 'follow_redirects'),
          verifySsl: flagOf(call.fields, true, 'verify_ssl', 'verify'),
          signal: deadline.signal,
        });
        span?.end(answer.status);
        const outcome = readOutcome(call.fields, message, answer, (performance.now() - startedAt) / 1000);
        return warnings.length === 0 ? outcome : { ...outcome, warnings };
      } catch (error) {
        span?.end(null);
        return explainExchange(error, message, deadline, limitMs);
      }
    },
  };
}

/** The headers of the credential; none for a host its owner did not list. */
export async function authorize(call: ToolCall, url: URL, tokens: TokenSource, signal: AbortSignal) {
  const { auth } = call;
  if (auth === null) return { headers: {}, warnings: [] };
  if (!isMeantFor(auth, url.hostname, url.port || (url.protocol === 'https:' ? 443 : 80))) {
    const warning = `credential '${auth.name ?? 'inline'}' is not meant for host ${url.hostname} and was not sent`;
    return { headers: {}, warnings: [warning] };
  }
  const workload = async () => {
    const root = (await call.context())['workload'];
    return isMap(root) ? root : {};
  };
  const headers = await authHeaders(auth, call.kind, tokens, workload, signal);
  // A token that was fetched is no part of the credential, and a server may say back what it was sent.
  const { authorization } = headers;
  if (authorization !== undefined && FETCHED_TYPES.has(auth.type.toLowerCase()))
    call.host.conceal(authorization.replace(/^Bearer /, ''));
  return { headers, warnings: [] };
}

function readOutcome(fields: JsonMap, message: HttpMessage, answer: OutboundResponse, elapsed: number): ToolOutcome {
  const { status, headers } = answer;
  const body = readBody(textOf(fields, 'response_type') ?? 'json', answer);
  const data = {
    status_code: status,
    headers,
    url: answer.url.href,
    elapsed: Number(elapsed.toFixed(6)),
    data: body,
    body,
  };
  const http = { status, headers };
  if (status >= 200 && status <= 299) return { ok: true, data, http };
  return refusedStatus(message, answer, { data, http });
}

/** The failure of an answer outside 200-299. */
export function refusedStatus(
  message: Pick<HttpMessage, 'method' | 'url'>,
  { status }: Pick<OutboundResponse, 'status'>,
  extra: FailureExtra = {},
): ToolFailure {
  const said = `HTTP ${status}${STATUS_CODES[status] === undefined ? '' : ` ${STATUS_CODES[status]}`}`;
  return failure(classifyHttpStatus(status), `HTTP_${status}`, `${said} from ${spellTarget(message)}`, {
    ...extra,
    status_code: status,
  });
}

function readBody(type: string, answer: OutboundResponse): Json {
  if (type === 'binary') return answer.body.toString('base64');
  const text = decodeText(answer);
  if (type !== 'json') return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** Text in the charset the answer names, UTF-8 when it names none or one that is unknown. */
export function decodeText(answer: OutboundResponse): string {
  const charset = /charset="?([\w-]+)"?/i.exec(answer.headers['content-type'] ?? '')?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(charset).decode(answer.body);
  } catch {
    return new TextDecoder().decode(answer.body);
  }
}

/** Method and URL without query, which may hold secrets. */
function spellTarget({ method, url }: Pick<HttpMessage, 'method' | 'url'>): string {
  return `${method} ${url.origin}${url.pathname}`;
}

/** What went wrong on the way to an answer. Throws FieldProblem on. */
export function explainExchange(
  error: unknown,
  message: Pick<HttpMessage, 'method' | 'url'>,
  deadline: Deadline,
  limitMs: number,
): ToolFailure {
  const target = spellTarget(message);
  if (error instanceof FieldProblem) throw error;
  if (deadline.why() === 'timeout')
    return failure('timeout', 'CONN_TIMEOUT', `${target} timed out after ${spellSeconds(limitMs)}`);
  if (deadline.why() === 'cancelled') return failure('unknown', 'CANCELLED', `${target} was stopped`);
  const refusal = findRefusal(error);
  if (refusal !== null)
    return failure('connection', 'EGRESS_DENIED', `${target} was not sent: ${refusal.message}`, { retryable: false });
  if (error instanceof BodyTooLarge)
    return failure('client_error', 'BODY_TOO_LARGE', `${target}: ${error.message}, more than is read`);
  if (error instanceof RequestRefused) return failure('config', 'REQUEST_REFUSED', `${target}: ${error.message}`);
  if (error instanceof TokenRefused)
    return failure(classifyHttpStatus(error.status), `HTTP_${error.status}`, error.message, {
      status_code: error.status,
    });
  const { kind, code, reason } = classifyNetwork(error);
  return failure(kind, code, `${target}: ${reason}`);
}

/** An egress refusal thrown while connecting arrives as itself or as the cause of undici's error. */
function findRefusal(error: unknown): EgressDenied | null {
  for (let each = error, depth = 0; each instanceof Error && depth < 8; each = each.cause, depth += 1)
    if (each instanceof EgressDenied) return each;
  return null;
}
