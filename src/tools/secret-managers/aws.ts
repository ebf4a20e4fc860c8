/**
 * AWS Secrets Manager: `GetSecretValue`, signed with the keys of a credential. A path is the name of a secret or its
 * ARN; a version is a stage (`AWSPREVIOUS`) or the id of a version.
 */
import type { JsonMap } from '../../../machines/json.ts';
import { FieldProblem, textOf } from '../fields.ts';
import type { ResolvedAuth } from '../tool.ts';
import { type Exchange, unreadable } from './exchange.ts';
import { type SecretManager, textOfBytes } from './provider.ts';
import { type AwsKeys, signed } from './sigv4.ts';

export interface AwsOptions {
  /** For private endpoints; null: the public one of the region. */
  readonly endpoint: string | null;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

const SERVICE = 'secretsmanager';
const REGION = /^[a-z]{2,}(?:-[a-z]+)+-\d+$/;
const MISSING: ReadonlySet<string> = new Set(['ResourceNotFoundException']);

export function createAws(exchange: Exchange, { endpoint, now }: AwsOptions): SecretManager {
  return {
    async read({ path, version, auth }, signal) {
      const data = auth?.data ?? {};
      const keys = keysOf(auth);
      const region = regionOf(path, data);
      const url = new URL(endpoint ?? publicEndpoint(region));
      const body = JSON.stringify({ SecretId: path, ...versionOf(version) });
      const headers = {
        'content-type': 'application/x-amz-json-1.1',
        'x-amz-target': 'secretsmanager.GetSecretValue',
      };
      const answer = await exchange.ask(
        {
          provider: 'aws',
          path,
          url,
          method: 'POST',
          headers: async () =>
            signed({ method: 'POST', url, headers, body }, keys, { region, service: SERVICE, now: now() }),
          body,
          auth,
          errorName,
          missing: MISSING,
        },
        signal,
      );
      const { SecretString: text, SecretBinary: binary } = answer;
      if (typeof text === 'string') return text;
      if (typeof binary === 'string') return textOfBytes(binary);
      throw unreadable('aws');
    },
  };
}

function keysOf(auth: ResolvedAuth | null): AwsKeys {
  const need = "secret provider 'aws' needs a credential with access_key_id and secret_access_key as 'auth'";
  const data = auth?.data ?? {};
  const accessKeyId = textOf(data, 'access_key_id', 'aws_access_key_id');
  const secretAccessKey = textOf(data, 'secret_access_key', 'aws_secret_access_key');
  if (accessKeyId === undefined || secretAccessKey === undefined || secretAccessKey === '')
    throw new FieldProblem(need);
  return { accessKeyId, secretAccessKey, sessionToken: textOf(data, 'session_token', 'aws_session_token') ?? null };
}

/** Of the ARN, else of the credential. */
function regionOf(path: string, data: JsonMap): string {
  const [, , , ofArn] = path.startsWith('arn:') ? path.split(':') : [];
  const region = ofArn || textOf(data, 'region', 'aws_region', 'region_name');
  if (region === undefined || region === '') {
    throw new FieldProblem("secret provider 'aws' needs a region, in the credential or in the ARN of the secret");
  }
  if (!REGION.test(region)) throw new FieldProblem(`'${region.slice(0, 60)}' is not a region of secret provider 'aws'`);
  return region;
}

function publicEndpoint(region: string): string {
  return `https://${SERVICE}.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}/`;
}

/** Ids of versions are UUIDs or tokens of 32 and more characters; stages are names. */
function versionOf(version: string | null): JsonMap {
  if (version === null) return {};
  return version.length >= 32 ? { VersionId: version } : { VersionStage: version };
}

/** `com.amazonaws…#ResourceNotFoundException`, or the bare name. */
function errorName(body: JsonMap): string | null {
  const type = body['__type'] ?? body['code'];
  return typeof type === 'string' ? (type.split('#').pop() ?? null) : null;
}
