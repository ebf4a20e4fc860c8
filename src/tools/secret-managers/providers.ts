/**
 * The secret managers of this build (language 12.3): `gcp`, `aws` and `azure`, asked over their own HTTP interfaces by
 * the server for keychain entries and by the worker for kind `secrets`. Addresses can be set, for endpoints of a
 * private network.
 */

import { unusableCredential } from '../credentials.ts';
import { authHeaders, type TokenSource } from '../http/authorization.ts';
import type { Outbound } from '../http/outbound.ts';
import { createAws } from './aws.ts';
import { createAzure } from './azure.ts';
import { Exchange } from './exchange.ts';
import { createGcp } from './gcp.ts';
import type { ProviderId, SecretManager, SecretRequest } from './provider.ts';

/** Null: the provider's public address. */
export interface SecretEndpoints {
  readonly aws: string | null;
  readonly gcp: string | null;
  readonly azureVault: string | null;
  readonly azureLogin: string | null;
}

export interface SecretManagersParts {
  readonly outbound: Outbound;
  readonly tokens: TokenSource;
  readonly endpoints: SecretEndpoints;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

export type SecretManagers = ReadonlyMap<string, SecretManager>;

export const PUBLIC_ENDPOINTS: SecretEndpoints = { aws: null, gcp: null, azureVault: null, azureLogin: null };

export function createSecretManagers({ outbound, tokens, endpoints, now }: SecretManagersParts): SecretManagers {
  const exchange = new Exchange(outbound);
  const bearer = (provider: ProviderId) => (request: SecretRequest, signal: AbortSignal) =>
    bearerOf(provider, tokens, request, signal);
  return new Map<ProviderId, SecretManager>([
    ['aws', createAws(exchange, { endpoint: endpoints.aws, now })],
    ['gcp', createGcp(exchange, { endpoint: endpoints.gcp, bearer: bearer('gcp') })],
    [
      'azure',
      createAzure(exchange, {
        vaultEndpoint: endpoints.azureVault,
        loginEndpoint: endpoints.azureLogin,
        bearer: bearer('azure'),
        tokens,
      }),
    ],
  ]);
}

/** The header of a credential that is or becomes a bearer token; without one the platform's own identity. */
async function bearerOf(
  provider: ProviderId,
  tokens: TokenSource,
  { auth, workload }: SecretRequest,
  signal: AbortSignal,
): Promise<string> {
  const used = auth ?? { name: null, type: 'gcp_adc', data: {} };
  const kind = `secrets (${provider})`;
  const { authorization = '' } = await authHeaders(used, kind, tokens, workload, signal);
  if (!authorization.startsWith('Bearer ')) throw unusableCredential(used, kind);
  return authorization;
}
