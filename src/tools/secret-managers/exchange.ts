/**
 * One question to a secret manager: a request under the egress rules, made anew for each of a few tries where the other
 * side or the way to it is in trouble, and its JSON answer. Nothing of an answer is quoted but the name of its error.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { isMap, type JsonMap } from '../../../machines/json.ts';
import { checkMeantFor } from '../credentials.ts';
import { classifyHttpStatus, classifyNetwork } from '../errors.ts';
import { FieldProblem } from '../fields.ts';
import { EgressDenied } from '../http/egress.ts';
import { BodyTooLarge, type Outbound, RequestRefused } from '../http/outbound.ts';
import { TokenRefused } from '../http/tokens.ts';
import { parseJson } from '../json-text.ts';
import type { ResolvedAuth } from '../tool.ts';
import { type ProviderId, SecretUnavailable } from './provider.ts';

export interface Question {
  readonly provider: ProviderId;
  /** The secret, for the sentence that says it is not there. */
  readonly path: string;
  readonly url: URL;
  readonly method: 'GET' | 'POST';
  /** Asked for each try: signatures and tokens have their time. Lower-case names. */
  readonly headers: (signal: AbortSignal) => Promise<Readonly<Record<string, string>>>;
  readonly body: string | null;
  readonly auth: ResolvedAuth | null;
  /** The provider's own name of an error, from the body of a refusal; null where it gives none. */
  readonly errorName: (body: JsonMap) => string | null;
  /** Names that mean "there is no such secret", whatever the status. */
  readonly missing: ReadonlySet<string>;
}

const TRIES = 3;
const PAUSES_MS = [200, 800];
const TRY_WITHIN_MS = 10_000;
const PASSING: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);
const THROTTLED = /^(?:Throttling(?:Exception)?|TooManyRequestsException|InternalServiceError)$/;

/** A failure that another try may not meet. */
class Passing extends SecretUnavailable {}

export class Exchange {
  readonly #outbound: Outbound;

  constructor(outbound: Outbound) {
    this.#outbound = outbound;
  }

  /** The JSON map of a 2xx answer. Throws SecretUnavailable, FieldProblem, or the reason of the signal. */
  async ask(question: Question, signal: AbortSignal): Promise<JsonMap> {
    const { url, auth } = question;
    checkMeantFor(auth, url.hostname, url.port || (url.protocol === 'https:' ? 443 : 80));
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#once(question, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof Passing) || attempt + 1 >= TRIES) throw error;
      }
      await pause(PAUSES_MS[attempt] ?? 0, undefined, { signal });
    }
  }

  async #once(question: Question, signal: AbortSignal): Promise<JsonMap> {
    const limit = AbortSignal.timeout(TRY_WITHIN_MS);
    const within = AbortSignal.any([signal, limit]);
    const { provider } = question;
    try {
      const { status, body } = await this.#outbound.send({
        url: question.url,
        method: question.method,
        headers: { accept: 'application/json', ...(await question.headers(within)) },
        secretHeaders: [],
        body: question.body,
        followRedirects: false,
        verifySsl: true,
        signal: within,
      });
      const answer = mapOf(body);
      if (status >= 200 && status <= 299 && answer !== null) return answer;
      if (status >= 200 && status <= 299) throw unreadable(provider);
      throw refused(question, status, answer ?? {});
    } catch (error) {
      if (limit.aborted && !signal.aborted) {
        throw new Passing('timeout', 'CONN_TIMEOUT', `secret provider '${provider}' did not answer in time`);
      }
      throw explained(error, provider);
    }
  }
}

/** For answers that are JSON and still hold no secret. */
export function unreadable(provider: ProviderId): SecretUnavailable {
  const sentence = `the answer of secret provider '${provider}' cannot be read`;
  return new SecretUnavailable('parse', 'SECRET_UNREADABLE', sentence);
}

function refused({ provider, path, errorName, missing }: Question, status: number, body: JsonMap): SecretUnavailable {
  const said = errorName(body);
  // A name, or nothing: the rest of what a server says may quote what it was sent.
  const name = said !== null && /^[A-Za-z][A-Za-z0-9_.]{0,63}$/.test(said) ? said : null;
  if (status === 404 || (name !== null && missing.has(name))) {
    const sentence = `secret provider '${provider}' has no secret '${path.slice(0, 256)}'`;
    return new SecretUnavailable('missing_reference', 'SECRET_NOT_FOUND', sentence);
  }
  const sentence = `secret provider '${provider}' answered HTTP ${status}${name === null ? '' : ` (${name})`}`;
  const passing = PASSING.has(status) || (name !== null && THROTTLED.test(name));
  if (passing) return new Passing(classifyHttpStatus(status), `HTTP_${status}`, sentence);
  const denied = name !== null && /AccessDenied|UnrecognizedClient|Signature|ExpiredToken|Forbidden/.test(name);
  return new SecretUnavailable(denied ? 'auth' : classifyHttpStatus(status), `HTTP_${status}`, sentence);
}

/** What an exchange may throw, in sentences that name no address, header or body. */
function explained(error: unknown, provider: ProviderId): unknown {
  if (error instanceof SecretUnavailable || error instanceof FieldProblem) return error;
  if (error instanceof TokenRefused) {
    const sentence = `secret provider '${provider}': ${error.message}`;
    const kind = classifyHttpStatus(error.status);
    const Failure = PASSING.has(error.status) ? Passing : SecretUnavailable;
    return new Failure(kind, `HTTP_${error.status}`, sentence);
  }
  for (let each: unknown = error, depth = 0; each instanceof Error && depth < 8; each = each.cause, depth += 1) {
    if (each instanceof EgressDenied) {
      const sentence = `the egress policy does not allow the address of secret provider '${provider}'`;
      return new SecretUnavailable('connection', 'EGRESS_DENIED', sentence);
    }
    if (each instanceof BodyTooLarge || each instanceof RequestRefused) return unreadable(provider);
  }
  const { kind, code } = classifyNetwork(error);
  return new Passing(kind, code, `secret provider '${provider}' cannot be reached (${code})`);
}

function mapOf(body: Buffer): JsonMap | null {
  try {
    const value = parseJson(body.toString('utf8'));
    return isMap(value) ? value : null;
  } catch {
    return null;
  }
}
