/**
 * A body of any JSON form, for endpoints whose protocol has its own words for one that cannot be read. Every other
 * endpoint gets objects only, and a refusal is answered before it is asked.
 */
import { RequestError } from '../errors.ts';

export class BodyReading {
  readonly json: unknown;
  /** Why there is no JSON, or none that may be kept (api 1.2). */
  readonly refusal: RequestError | null;

  constructor(json: unknown, refusal: RequestError | null) {
    this.json = json;
    this.refusal = refusal;
  }
}

/** What a handler of such an endpoint was given; a request without a body has none. */
export function readingOf(body: unknown): BodyReading {
  return body instanceof BodyReading
    ? body
    : new BodyReading(undefined, new RequestError('invalid_json', 'body: must be JSON'));
}
