/** What the gateway needs of a way to log in; src/gateway/oidc is the one there is. */
import type { Exchange } from './exchange.ts';

export interface Login {
  /** For /api/runtime/contract. */
  readonly described: {
    readonly mode: 'oidc';
    readonly login_url: string;
    readonly issuer: string;
    readonly client_id: string;
  };
  /** Sends the browser to the provider. */
  begin(exchange: Exchange, query: URLSearchParams): Promise<void>;
  /** The browser comes back from there. */
  finish(exchange: Exchange, query: URLSearchParams): Promise<void>;
  /** A client brings an ID token it has got by itself. */
  exchangeToken(exchange: Exchange, body: Readonly<Record<string, unknown>>): Promise<void>;
}
