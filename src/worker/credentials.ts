/**
 * What `auth` of a task stands for (language 12.1): the name of a credential, read from the server just before the try
 * and forgotten after it, or an inline map. Nothing is cached.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { hostsIn, unreadableHosts } from '../../machines/schema/credential-hosts.ts';
import type { CredentialAnswer } from '../client/answers.ts';
import { ApiError, isPassing } from '../client/errors.ts';
import type { ResolvedAuth, ToolFailure } from '../tools/tool.ts';
import { engineFailure } from './outcome.ts';

export interface CredentialReader {
  credential(
    name: string,
    withData: boolean,
    options: { executionId: number; workerId: string; tries: number; signal: AbortSignal },
  ): Promise<CredentialAnswer>;
}

export interface AuthRequest {
  /** The rendered `auth` field. */
  readonly auth: Json;
  readonly executionId: number;
  readonly workerId: string;
  readonly signal: AbortSignal;
}

/** One, and five more where the server or the way to it is in trouble. */
const TRIES = 6;

/** Null: the task has no `auth`, or `{type: none}`. A failure is for the try. */
export async function resolveAuth(
  reader: CredentialReader,
  request: AuthRequest,
): Promise<{ auth: ResolvedAuth | null } | { failure: ToolFailure }> {
  const { auth } = request;
  if (auth === null || auth === '') return { auth: null };
  if (typeof auth === 'string') return readByName(reader, auth, request);
  if (!isMap(auth)) return { failure: engineFailure('config', 'AUTH_FIELD', "field 'auth' must be text or a map") };
  const name = auth['credential'];
  if (typeof name === 'string' && name !== '') return readByName(reader, name, request);
  return inline(auth);
}

async function readByName(
  reader: CredentialReader,
  name: string,
  { executionId, workerId, signal }: AuthRequest,
): Promise<{ auth: ResolvedAuth } | { failure: ToolFailure }> {
  try {
    const found = await reader.credential(name, true, { executionId, workerId, tries: TRIES, signal });
    const hosts = hostsIn(found.meta);
    if (hosts === 'unreadable') return { failure: engineFailure('config', 'CREDENTIAL_HOSTS', unreadableHosts(name)) };
    return { auth: { name, type: found.type, data: found.data ?? {}, ...(hosts === null ? {} : { hosts }) } };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ApiError && error.status === 404) {
      return { failure: engineFailure('missing_reference', 'CREDENTIAL_NOT_FOUND', `Credential '${name}' not found`) };
    }
    if (isPassing(error)) {
      const message = `credential '${name}' cannot be read: the server does not answer`;
      return { failure: engineFailure('connection', 'CONN_ERROR', message) };
    }
    const code = error instanceof ApiError ? error.code.toUpperCase() : 'CREDENTIAL_UNREADABLE';
    return { failure: engineFailure('config', code, `credential '${name}' cannot be read`) };
  }
}

/** `gcp_adc` has no data of its own: the http tool finds the token where language 12.2 says. */
function inline({ type, ...data }: JsonMap): { auth: ResolvedAuth | null } | { failure: ToolFailure } {
  if (type === 'none') return { auth: null };
  if (typeof type === 'string' && type !== '') return { auth: { name: null, type, data } };
  return { failure: engineFailure('config', 'AUTH_FIELD', "an inline 'auth' needs a type") };
}
