/**
 * Sends one request for a token, for the server (entries of a starting execution) and for the worker (renewals). Egress
 * rules hold as for any request; redirects are not followed, because a token endpoint that moved is not the one that
 * was named. Errors say what happened without the address, headers or body.
 */
import type { Json } from '../../../machines/json.ts';
import type { TokenAnswer, TokenRequest } from '../../../machines/keychain/renewal.ts';
import { classifyNetwork } from '../errors.ts';
import { parseJson } from '../json-text.ts';
import { createEgress, EgressDenied, type EgressOptions } from './egress.ts';
import { BodyTooLarge, createOutbound } from './outbound.ts';

/** The endpoint gave no answer that can be read. */
export class TokenRequestFailed extends Error {
  override readonly name = 'TokenRequestFailed';
}

export interface TokenRequests {
  /** Any HTTP status is an answer. Throws TokenRequestFailed, or the reason of the signal. */
  send(request: TokenRequest, signal: AbortSignal): Promise<TokenAnswer>;
  close(): Promise<void>;
}

const ANSWER_MAX_BYTES = 1_048_576;
const ANSWER_WITHIN_MS = 10_000;

/** Throws RangeError for an egress rule that cannot be read. */
export function createTokenRequests(options: EgressOptions): TokenRequests {
  const outbound = createOutbound(createEgress(options), ANSWER_MAX_BYTES);
  return {
    async send({ url, method, headers, body }, signal) {
      if (!URL.canParse(url)) throw new TokenRequestFailed('the endpoint is not a URL');
      const limit = AbortSignal.timeout(ANSWER_WITHIN_MS);
      try {
        const answer = await outbound.send({
          url: new URL(url),
          method,
          headers,
          secretHeaders: [],
          body,
          followRedirects: false,
          verifySsl: true,
          signal: AbortSignal.any([signal, limit]),
        });
        return { status: answer.status, body: jsonOf(answer.body) };
      } catch (error) {
        if (!limit.aborted) signal.throwIfAborted();
        throw new TokenRequestFailed(limit.aborted ? 'the endpoint did not answer in time' : reasonOf(error));
      }
    },
    close: () => outbound.close(),
  };
}

function jsonOf(body: Buffer): Json | undefined {
  try {
    return parseJson(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

function reasonOf(error: unknown): string {
  for (let each = error, depth = 0; each instanceof Error && depth < 8; each = each.cause, depth += 1) {
    if (each instanceof EgressDenied) return 'the egress policy does not allow the endpoint';
    if (each instanceof BodyTooLarge) return 'the answer of the endpoint is too large';
  }
  return `the endpoint cannot be reached (${classifyNetwork(error).code})`;
}
