/**
 * Resolving the entries a playbook declares, when an execution of it starts (language 12.4.1): in order, before the
 * first command. A live entry is reused, any other is fetched once however many executions start together. Nothing here
 * stops the execution: an entry that cannot be had is missing when a task needs it, and says why in the log.
 */
import { isMap, type Json, type JsonMap } from '../machines/json.ts';
import {
  type RenewConfig,
  readFirstAnswer,
  type TokenAnswer,
  type TokenRequest,
  tokenRequest,
} from '../machines/keychain/renewal.ts';
import { type EntryValue, KeychainRoot } from '../machines/keychain/root.ts';
import { cacheKeyOf, type EntryScope, readScope } from '../machines/keychain/scope.ts';
import {
  decodeSecret,
  type EntrySource,
  renderEntry,
  type SecretProvider,
  secretVariable,
} from '../machines/keychain/sources.ts';
import { TemplateError } from '../machines/playbook/template/errors.ts';
import type { Scope } from '../machines/playbook/template/facade.ts';
import type { Limits } from '../machines/playbook/template/run.ts';
import { DomainError } from './errors.ts';
import { openEntry } from './keychain-service.ts';
import type { KeychainStore } from './keychain-store.ts';
import type { Log } from './ports.ts';
import type { KeychainService } from './services.ts';
import type { Vault } from './vault.ts';

/** Where values come from. What these throw has a message that holds no value. */
export interface KeychainSources {
  /** Sends a token request under the egress rules; throws SourceError where there is no answer. */
  request(request: TokenRequest, signal: AbortSignal): Promise<TokenAnswer>;
  /** A variable of this process that was set for the purpose. */
  secret(variable: string): string | undefined;
  /** One secret of a secret manager; throws SourceError where it cannot be had. */
  managed(request: ManagedSecret, signal: AbortSignal): Promise<string>;
  /** A stored credential, revealed with a trace; null where there is none. */
  credential(name: string, executionId: number): Promise<SourceCredential | null>;
  /** Aborts after so many milliseconds. */
  deadline(ms: number): AbortSignal;
}

export interface SourceCredential {
  readonly type: string;
  readonly data: JsonMap;
  /** Hosts it may be sent to; absent: any. */
  readonly hosts?: readonly string[];
}

export interface ManagedSecret {
  readonly provider: Exclude<SecretProvider, 'env'>;
  readonly path: string;
  /** What the entry names as `auth`; the name is null for an inline map. */
  readonly auth: (SourceCredential & { readonly name: string | null }) | null;
  /** Inputs of the execution. */
  readonly workload: JsonMap;
}

/** Why a value could not be had, in a sentence without values. */
export class SourceError extends Error {
  override readonly name = 'SourceError';
}

export interface PreparationParts {
  readonly keychain: Pick<KeychainService, 'store'>;
  readonly store: Pick<KeychainStore, 'find' | 'removeOf'>;
  readonly vault: Vault;
  readonly sources: KeychainSources;
  readonly limits: Limits;
  readonly log: Log;
}

/** The execution that is about to start. */
export interface StartingExecution {
  readonly executionId: number;
  readonly rootExecutionId: number;
  readonly parentExecutionId: number | null;
  readonly catalogId: number;
  /** Definitions in document order, as the parser left them. */
  readonly definitions: readonly JsonMap[];
  readonly workload: JsonMap;
  readonly args: JsonMap;
}

export interface KeychainPreparation {
  /** Never throws. */
  prepare(starting: StartingExecution): Promise<void>;
  /** Takes back what was stored for an execution that did not start after all. Never throws. */
  discard(executionId: number): Promise<void>;
}

interface Entry {
  readonly name: string;
  readonly scope: EntryScope;
  readonly cacheKey: string;
  readonly definition: JsonMap;
}

/** All entries of one start together; a caller waits for the start. */
const PREPARE_WITHIN_MS = 20_000;
/** Questions to a secret manager at the same time. */
const SECRETS_AT_ONCE = 8;

export function createKeychainPreparation(parts: PreparationParts): KeychainPreparation {
  const { keychain, store, vault, sources, limits, log } = parts;
  /** By cache key, while under way. */
  const fetching = new Map<string, Promise<JsonMap>>();

  async function stored(entry: Entry): Promise<JsonMap | null> {
    const row = await store.find(entry.cacheKey);
    if (row === null || !row.isLive) return null;
    try {
      return openEntry(vault, row);
    } catch (error) {
      // Sealed with a key that is gone: as good as absent.
      if (error instanceof DomainError) return null;
      throw error;
    }
  }

  async function fetchAndStore(
    entry: Entry,
    starting: StartingExecution,
    scope: Scope,
    signal: AbortSignal,
  ): Promise<JsonMap> {
    const rendered = renderEntry(entry.definition, scope, limits);
    const found = await fetchValue(rendered.source, starting, signal);
    const {
      data: tokenData,
      ttlSeconds: saidSeconds = null,
      type = rendered.credentialType,
      renewConfig = null,
    } = found;
    await keychain.store({
      catalogId: starting.catalogId,
      name: entry.name,
      scope: entry.scope,
      executionId: entry.scope === 'global' ? null : starting.executionId,
      parentExecutionId: starting.parentExecutionId,
      tokenData,
      credentialType: type,
      cacheType: rendered.cacheType,
      expiresAt: null,
      ttlSeconds: rendered.ttlSeconds ?? saidSeconds,
      autoRenew: rendered.autoRenew && renewConfig !== null,
      renewConfig,
      schema: null,
    });
    return tokenData;
  }

  async function fetchValue(
    source: EntrySource,
    starting: StartingExecution,
    signal: AbortSignal,
  ): Promise<FetchedValue> {
    switch (source.from) {
      case 'value':
        return { data: source.data };
      case 'nowhere':
        throw new SourceError(source.reason);
      case 'secrets':
        return { data: await secretsOf(source, starting, signal) };
      case 'credential': {
        const { type, data } = await credentialOf(source.name, starting.executionId);
        return { type, data };
      }
      case 'request': {
        const answer = await sources.request(tokenRequest(source.config, source.encoding), signal);
        const read = readFirstAnswer(source.config, answer);
        if (!read.ok) throw new SourceError(read.reason);
        return { data: read.tokenData, ttlSeconds: read.ttlSeconds, renewConfig: source.config };
      }
    }
  }

  /** The fields of an entry of secrets, a few at a time. */
  async function secretsOf(
    { provider, auth, paths }: EntrySource & { from: 'secrets' },
    { executionId, workload }: StartingExecution,
    signal: AbortSignal,
  ): Promise<JsonMap> {
    if (provider === 'env') return Object.fromEntries(paths.map(([field, path]) => [field, secretAt(path)]));
    const known = await authOf(auth, executionId);
    const found: [string, Json][] = [];
    for (let at = 0; at < paths.length; at += SECRETS_AT_ONCE) {
      const asked = paths.slice(at, at + SECRETS_AT_ONCE).map(async ([field, path]): Promise<[string, Json]> => {
        const text = await sources.managed({ provider, path, auth: known, workload }, signal);
        return [field, decodeSecret(text)];
      });
      found.push(...(await Promise.all(asked)));
    }
    return Object.fromEntries(found);
  }

  /** As a task names its credential (language 12.1). */
  async function authOf(auth: Json, executionId: number): Promise<ManagedSecret['auth']> {
    if (auth === null || auth === '') return null;
    const name = isMap(auth) ? auth['credential'] : auth;
    if (typeof name === 'string' && name !== '') return { name, ...(await credentialOf(name, executionId)) };
    const { type = null, ...data } = isMap(auth) ? auth : {};
    if (typeof type !== 'string' || type === '') throw new SourceError("an inline 'auth' needs a type");
    return type === 'none' ? null : { name: null, type, data };
  }

  async function credentialOf(name: string, executionId: number): Promise<SourceCredential> {
    const credential = await sources.credential(name, executionId);
    if (credential === null) throw new SourceError(`Credential '${name}' not found`);
    return credential;
  }

  function secretAt(path: string): Json {
    const variable = secretVariable(path);
    const text = sources.secret(variable);
    if (text === undefined || text === '') throw new SourceError(`the server has no variable ${variable}`);
    return decodeSecret(text);
  }

  /** Starts of the same playbook that need the same entry wait for one fetch. */
  async function resolve(
    entry: Entry,
    starting: StartingExecution,
    scope: Scope,
    signal: AbortSignal,
  ): Promise<EntryValue> {
    try {
      const live = await stored(entry);
      if (live !== null) return { available: true, data: live };
      const known = fetching.get(entry.cacheKey);
      const fetched = known ?? fetchAndStore(entry, starting, scope, signal);
      if (known === undefined) {
        fetching.set(entry.cacheKey, fetched);
        const done = () => fetching.delete(entry.cacheKey);
        fetched.then(done, done);
      }
      return { available: true, data: await fetched };
    } catch (error) {
      log.warn('A keychain entry could not be resolved', {
        keychain_name: entry.name,
        scope_type: entry.scope,
        execution_id: starting.executionId,
        reason: reasonOf(error),
      });
      return { available: false, reason: 'not_found' };
    }
  }

  return {
    async prepare(starting) {
      const signal = sources.deadline(PREPARE_WITHIN_MS);
      const values = new Map<string, EntryValue>();
      const scope = scopeOf(starting, values);
      for (const definition of starting.definitions) {
        const entry = entryOf(definition, starting);
        values.set(entry.name, await resolve(entry, starting, scope, signal));
      }
    },

    async discard(executionId) {
      try {
        await store.removeOf([executionId]);
      } catch (error) {
        log.warn('Keychain entries of an execution that did not start stay until they expire', {
          execution_id: executionId,
          error,
        });
      }
    },
  };
}

interface FetchedValue {
  readonly data: JsonMap;
  readonly type?: string;
  readonly ttlSeconds?: number | null;
  readonly renewConfig?: RenewConfig;
}

function entryOf(definition: JsonMap, starting: StartingExecution): Entry {
  const name = String(definition['name']);
  const scope = readScope(String(definition['scope'])) ?? 'global';
  const { catalogId, executionId, rootExecutionId } = starting;
  return { name, scope, definition, cacheKey: cacheKeyOf({ name, catalogId, scope, executionId, rootExecutionId }) };
}

/** The merged inputs, bare and as `workload`, and the entries before (language 12.3). */
function scopeOf({ workload, args }: StartingExecution, values: ReadonlyMap<string, EntryValue>): Scope {
  const keychain = new KeychainRoot(values, (sentence) => new SourceError(sentence));
  return {
    lookup(name) {
      if (name === 'workload') return workload;
      if (name === 'args') return args;
      if (name === 'keychain') return keychain;
      return Object.hasOwn(workload, name) ? workload[name] : undefined;
    },
  };
}

/** Never the message of a foreign error: it may quote what it met. */
function reasonOf(error: unknown): string {
  if (error instanceof SourceError || error instanceof DomainError) return error.message;
  if (error instanceof TemplateError) return `a template cannot be rendered (${error.code})`;
  return error instanceof Error ? error.name : 'unknown';
}
