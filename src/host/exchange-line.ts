/**
 * The worker exchange (api 2.5.1) for a worker of the same process: what the route does, without the network and the
 * framework around it, which took an eighth of a short run (docs/decisions/0012). Text goes in and text comes out,
 * so that nothing is shared with the worker, and the body is read and refused by the same rules. It is there only
 * where the door asks nothing of a caller: with tokens or traces the worker calls like any other.
 */
import { randomBytes } from 'node:crypto';
import type { InferOutput } from 'valibot';
import type { Clock, Log } from '../../actors/ports.ts';
import type { Services } from '../../actors/services.ts';
import { createWaits } from '../api/context.ts';
import { createExchange } from '../api/workers.ts';
import { answerOf, type ErrorOptions } from '../errors.ts';
import { exchangeBody } from '../wire/exchange.ts';
import type { Line, LineAnswer } from '../wire/line.ts';
import { requestIds } from './address.ts';
import { readSmallBody } from './body-reader.ts';
import { noteFailure } from './error-handler.ts';
import { integerPlacesOf } from './integer-places.ts';
import { validatorOf } from './validation.ts';

export interface ExchangeLineOptions extends ErrorOptions {
  readonly authMode: 'open' | 'enforce';
  /** Requests leave spans. */
  readonly isTraced: boolean;
  readonly bodyLimitBytes: number;
  readonly log: Log;
  /** The database's clock. */
  readonly clock: Clock;
  /** Aborted when the process stops. */
  readonly stopping: AbortSignal;
}

const PATH = '/api/worker/exchange';
/** Larger ones go to the route, which knows their limit and has a thread for the largest. */
const TEXT_MAX = 64 * 1024;
/** Of one unit of a text, in UTF-8. */
const BYTES_PER_UNIT = 3;

/** Null where calls are told apart by their tokens, or traced. */
export function createExchangeLine(services: Pick<Services, 'commands'>, options: ExchangeLineOptions): Line | null {
  const { clock, log, stopping } = options;
  if (options.authMode !== 'open' || options.isTraced) return null;
  const waits = createWaits(stopping);
  const exchange = createExchange({ services, clock, waits });
  const rules = { anyRoot: false, integers: integerPlacesOf(exchangeBody) };
  const validate = validatorOf(exchangeBody, 'body');
  const nextRequestId = requestIds(randomBytes(4).toString('hex'));
  const textMax = Math.min(TEXT_MAX, options.bodyLimitBytes / BYTES_PER_UNIT);

  function bodyOf(text: string): InferOutput<typeof exchangeBody> {
    const checked = validate(readSmallBody(Buffer.from(text), rules));
    if ('error' in checked) throw checked.error;
    // The output of this very schema.
    return checked.value as InferOutput<typeof exchangeBody>;
  }

  async function answered(text: string, signal: AbortSignal): Promise<LineAnswer> {
    // Only polls wait.
    let over = () => {};
    const waiting = () => {
      const wait = waits.joined(signal);
      over = wait.over;
      return wait.signal;
    };
    try {
      const answer = await exchange(bodyOf(text), waiting);
      return { status: 200, retryAfter: null, text: JSON.stringify(answer) };
    } catch (error) {
      return refused(error);
    } finally {
      over();
    }
  }

  function refused(error: unknown): LineAnswer {
    const requestId = nextRequestId(undefined);
    const answer = answerOf(error, requestId, options);
    noteFailure(log, answer, { request_id: requestId, method: 'POST', route: PATH, error });
    return {
      status: answer.status,
      retryAfter: answer.headers['retry-after'] ?? null,
      text: JSON.stringify(answer.body),
    };
  }

  return {
    path: PATH,
    // Behind a server that stops there is nobody: the network says so.
    post: (body, signal) => (stopping.aborted || body.length > textMax ? null : answered(body, signal)),
  };
}
