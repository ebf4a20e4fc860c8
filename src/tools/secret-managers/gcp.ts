/**
 * Google Secret Manager: `projects/P/secrets/S/versions/V:access`. A path is that name, also without the version (then
 * `latest`) or without the project (then the credential's), or of a region with `locations/L`.
 */
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { FieldProblem, textOf } from '../fields.ts';
import { accountOf } from '../http/tokens.ts';
import type { ResolvedAuth } from '../tool.ts';
import { type Exchange, unreadable } from './exchange.ts';
import { type SecretManager, type SecretRequest, textOfBytes } from './provider.ts';

export interface GcpOptions {
  /** For private endpoints; null: the public one, or the region's. */
  readonly endpoint: string | null;
  /** The `authorization` header of a credential; null: the identity of the platform. */
  readonly bearer: (request: SecretRequest, signal: AbortSignal) => Promise<string>;
}

const NAME =
  /^(?:projects\/(?<project>[a-z0-9:.-]{1,100})\/)?(?:locations\/(?<location>[a-z0-9-]{1,60})\/)?(?:secrets\/)?(?<secret>[A-Za-z0-9_-]{1,255})(?:\/versions\/(?<version>[A-Za-z0-9_-]{1,63}))?$/;
const NONE: ReadonlySet<string> = new Set(['NOT_FOUND']);

export function createGcp(exchange: Exchange, { endpoint, bearer }: GcpOptions): SecretManager {
  return {
    async read(request, signal) {
      const { path, version, auth } = request;
      const found = NAME.exec(path.trim())?.groups;
      if (found === undefined)
        throw new FieldProblem(`'${path.slice(0, 256)}' is not a name of a secret of provider 'gcp'`);
      const project = found['project'] ?? projectOf(auth);
      const where = found['location'] === undefined ? '' : `/locations/${found['location']}`;
      const name = `projects/${project}${where}/secrets/${found['secret']}/versions/${version ?? found['version'] ?? 'latest'}`;
      const base = endpoint ?? publicEndpoint(found['location']);
      const answer = await exchange.ask(
        {
          provider: 'gcp',
          path,
          url: new URL(`${base.replace(/\/+$/, '')}/v1/${name}:access`),
          method: 'GET',
          headers: async (within) => ({ authorization: await bearer(request, within) }),
          body: null,
          auth,
          errorName,
          missing: NONE,
        },
        signal,
      );
      const payload: Json = answer['payload'] ?? null;
      const data = isMap(payload) ? payload['data'] : undefined;
      // A secret without a byte is sent without the field.
      if (isMap(payload) && data === undefined) return '';
      if (typeof data !== 'string') throw unreadable('gcp');
      return textOfBytes(data);
    },
  };
}

function projectOf(auth: ResolvedAuth | null): string {
  const project = auth === null ? undefined : textOf(accountOf(auth.data), 'project_id', 'project');
  if (project !== undefined && /^[a-z0-9:.-]{1,100}$/.test(project)) return project;
  throw new FieldProblem("secret provider 'gcp' needs a project: name secrets as projects/<project>/secrets/<name>");
}

function publicEndpoint(location: string | undefined): string {
  return location === undefined
    ? 'https://secretmanager.googleapis.com'
    : `https://secretmanager.${location}.rep.googleapis.com`;
}

function errorName(body: JsonMap): string | null {
  const { error = null } = body;
  const status = isMap(error) ? error['status'] : undefined;
  return typeof status === 'string' ? status : null;
}
