/**
 * Azure Key Vault: `GET /secrets/<name>[/<version>]`. A path is the URL of a secret, `<vault>/<name>[/<version>]`, or
 * `<name>` with the vault of the credential. A token goes to vaults of Azure only, whatever a path says.
 */
import { isMap, type JsonMap } from '../../../machines/json.ts';
import { FieldProblem, requiredText, textOf } from '../fields.ts';
import type { TokenSource } from '../http/authorization.ts';
import type { ResolvedAuth } from '../tool.ts';
import { type Exchange, unreadable } from './exchange.ts';
import type { SecretManager, SecretRequest } from './provider.ts';

export interface AzureOptions {
  /** For private endpoints; null: `https://<vault>.vault.azure.net`. */
  readonly vaultEndpoint: string | null;
  /** Where tokens for a tenant come from; null: `https://login.microsoftonline.com`. */
  readonly loginEndpoint: string | null;
  readonly bearer: (request: SecretRequest, signal: AbortSignal) => Promise<string>;
  readonly tokens: Pick<TokenSource, 'clientCredentials'>;
}

const API_VERSION = '7.4';
const SCOPE = 'https://vault.azure.net/.default';
const VAULT = /^[A-Za-z0-9-]{3,24}$/;
const SEGMENT = /^[A-Za-z0-9-]{1,127}$/;
/** The public cloud, China and the US government. */
const VAULT_HOST = /^[a-z0-9-]{3,24}\.(?:vault|managedhsm)\.(?:azure\.net|azure\.cn|usgovcloudapi\.net)$/;
const TENANT = /^[A-Za-z0-9.-]{1,128}$/;
const NONE: ReadonlySet<string> = new Set(['SecretNotFound']);

export function createAzure(exchange: Exchange, options: AzureOptions): SecretManager {
  return {
    async read(request, signal) {
      const { path, auth } = request;
      const url = addressOf(request, options.vaultEndpoint);
      const answer = await exchange.ask(
        {
          provider: 'azure',
          path,
          url,
          method: 'GET',
          headers: async (within) => ({ authorization: await authorization(request, options, within) }),
          body: null,
          auth,
          errorName,
          missing: NONE,
        },
        signal,
      );
      const { value } = answer;
      if (typeof value !== 'string') throw unreadable('azure');
      return value;
    },
  };
}

function addressOf({ path, version, auth }: SecretRequest, endpoint: string | null): URL {
  const problem = new FieldProblem(`'${path.slice(0, 256)}' is not a secret of provider 'azure': use <vault>/<name>`);
  const { base, segments } = placeOf(path.trim(), auth?.data ?? {}, endpoint, problem);
  const [name, ofPath, ...rest] = segments;
  const asked = version ?? ofPath;
  if (name === undefined || rest.length > 0 || !SEGMENT.test(name)) throw problem;
  if (asked !== undefined && !SEGMENT.test(asked)) throw problem;
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/secrets/${name}${asked === undefined ? '' : `/${asked}`}`;
  url.search = `?api-version=${API_VERSION}`;
  return url;
}

function placeOf(path: string, data: JsonMap, endpoint: string | null, problem: FieldProblem) {
  if (path.includes('://')) {
    const url = URL.canParse(path) ? new URL(path) : null;
    const ours = url !== null && url.protocol === 'https:' && url.port === '' && VAULT_HOST.test(url.hostname);
    const [, secrets, ...segments] = url?.pathname.split('/') ?? [];
    if (!ours || url === null || secrets !== 'secrets') throw problem;
    return { base: endpoint ?? url.origin, segments: segments.filter((segment) => segment !== '') };
  }
  const segments = path.split('/').filter((segment) => segment !== '');
  const vault = textOf(data, 'vault', 'vault_name', 'vault_url');
  // With a vault in the credential a path names only the secret, else it begins with the vault.
  const named = vault ?? segments.shift();
  if (named === undefined) throw problem;
  const name = named.replace(/^https:\/\//, '').replace(/\/+$/, '');
  const host = VAULT_HOST.test(name) ? name : VAULT.test(name) ? `${name}.vault.azure.net` : null;
  if (host === null) throw problem;
  return { base: endpoint ?? `https://${host}`, segments };
}

/** Client credentials of a tenant, or what any other credential makes of itself. */
async function authorization(request: SecretRequest, options: AzureOptions, signal: AbortSignal): Promise<string> {
  const { auth } = request;
  if (auth === null) {
    throw new FieldProblem(
      "secret provider 'azure' needs a credential with tenant_id, client_id and client_secret as 'auth'",
    );
  }
  if (textOf(auth.data, 'client_secret') === undefined) return options.bearer(request, signal);
  const token = await options.tokens.clientCredentials(
    {
      token_url: textOf(auth.data, 'token_url') ?? tokenUrl(auth, options.loginEndpoint),
      client_id: requiredText(auth.data, 'client_id'),
      client_secret: requiredText(auth.data, 'client_secret'),
      scope: textOf(auth.data, 'scope') ?? SCOPE,
    },
    signal,
  );
  return `Bearer ${token}`;
}

function tokenUrl(auth: ResolvedAuth, loginEndpoint: string | null): string {
  const tenant = requiredText(auth.data, 'tenant_id', 'tenant');
  if (!TENANT.test(tenant)) throw new FieldProblem("field 'tenant_id' is not a tenant of secret provider 'azure'");
  const base = (loginEndpoint ?? 'https://login.microsoftonline.com').replace(/\/+$/, '');
  return `${base}/${tenant}/oauth2/v2.0/token`;
}

function errorName(body: JsonMap): string | null {
  const { error = null } = body;
  const code = isMap(error) ? error['code'] : undefined;
  return typeof code === 'string' ? code : null;
}
