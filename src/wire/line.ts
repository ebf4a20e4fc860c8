/** A way from a client to a server in the same process, without a network in between. */

/** One POST endpoint of that server. */
export interface Line {
  readonly path: string;
  /** The answer as the endpoint gives it, errors included; null: this call is one for the network. The promise never rejects. */
  post(body: string, signal: AbortSignal): Promise<LineAnswer> | null;
}

export interface LineAnswer {
  readonly status: number;
  /** The header; null where there is none. */
  readonly retryAfter: string | null;
  /** JSON. */
  readonly text: string;
}
