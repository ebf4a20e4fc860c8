/**
 * Keychain entries for the tries of a worker (language 12.4): read just before the try, renewed by one reader while the
 * others wait, forgotten after the command. Within this worker a renewal is shared by its cache key, so tries that meet
 * it learn at once how it ended; readers in other workers read again until the server's grant is over.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { JsonMap } from '../../machines/json.ts';
import {
  encodingOf,
  RENEW_DEFAULTS,
  type Renewal,
  type RenewConfig,
  readRenewal,
  tokenRequest,
} from '../../machines/keychain/renewal.ts';
import { type EntryValue, KeychainRoot } from '../../machines/keychain/root.ts';
import type { EntryScope } from '../../machines/keychain/scope.ts';
import type { CallboardClient } from '../client/client.ts';
import { ApiError, isPassing, TransportError } from '../client/errors.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { TokenRequests } from '../tools/http/token-request.ts';
import type { KeychainReading } from '../wire/keychain.ts';
import type { WorkerSpans } from './spans.ts';

/** Fails the try with kind `missing_reference`. */
export class MissingReference extends Error {
  override readonly name = 'MissingReference';
}

/** `keychain` of a scope; entries that nobody read are not available. */
export function keychainRoot(entries: ReadonlyMap<string, EntryValue>): KeychainRoot {
  return new KeychainRoot(entries, (sentence) => new MissingReference(sentence));
}

export type KeychainClient = Pick<CallboardClient, 'keychainRead' | 'keychainStore'>;

export interface EntryRequest {
  readonly catalogId: number;
  readonly name: string;
  /** Null: not declared; `local`, `shared`, then `global` is looked at. */
  readonly scope: EntryScope | null;
  readonly executionId: number;
  readonly step: string;
  readonly signal: AbortSignal;
}

export interface KeychainReader {
  /** Throws TransportError where the server cannot be asked, and the reason of the signal. */
  resolve(request: EntryRequest): Promise<EntryValue>;
}

export interface KeychainReaderParts {
  readonly client: KeychainClient;
  readonly requests: Pick<TokenRequests, 'send'>;
  readonly log: Pick<Log, 'warn'>;
  readonly workerId: string;
  /** Milliseconds since the epoch, to tell when a grant is over. */
  readonly now: () => number;
  readonly spans?: Pick<WorkerSpans, 'renewal'>;
  readonly meter?: Pick<Metrics, 'count'>;
}

type Found = Exclude<KeychainReading, { status: 'not_found' }>;
type Expired = Found & { status: 'expired' };

const LOOKED_AT: readonly EntryScope[] = ['local', 'shared', 'global'];
const POLL_MS = 150;
/** A grant is 30 s; more than this nobody waits for, whatever the clocks say. */
const WAIT_MAX_MS = 35_000;
const RENEWALS_KEPT = 1_000;
const FAILED: EntryValue = { available: false, reason: 'renewal_failed' };

export function createKeychainReader(parts: KeychainReaderParts): KeychainReader {
  const { client, requests, log, workerId, now } = parts;
  /** By cache key: the last renewal of this worker, kept while its grant lasts. */
  const renewals = new Map<string, Promise<Renewal>>();
  /** By cache key, while tries of this worker wait for a renewal elsewhere. */
  const looks = new Map<string, Promise<void>>();

  async function read(request: EntryRequest, scope: EntryScope, claimRenewal: boolean): Promise<KeychainReading> {
    const { catalogId, name, executionId, signal } = request;
    try {
      return await client.keychainRead(catalogId, name, { scope, executionId, claimRenewal, workerId, signal });
    } catch (error) {
      signal.throwIfAborted();
      if (!isPassing(error)) throw error;
      throw new TransportError(`keychain entry '${name}' cannot be read: the server does not answer`, { cause: error });
    }
  }

  function tell(sentence: string, request: EntryRequest, scope: EntryScope | null, reason?: string): void {
    log.warn(sentence, {
      keychain_name: request.name,
      scope_type: scope,
      execution_id: request.executionId,
      step: request.step,
      ...(reason === undefined ? {} : { reason }),
    });
  }

  function failed(request: EntryRequest, scope: EntryScope, reason: string): EntryValue {
    tell(`KEYCHAIN: Failed to renew '${request.name}'`, request, scope, reason);
    return FAILED;
  }

  async function use(request: EntryRequest, scope: EntryScope, found: Found): Promise<EntryValue> {
    const config = configOf(found);
    if (found.status === 'success') {
      if (found.renewal?.granted !== true || config === null) return { available: true, data: found.token_data };
      const early = await orAborted(renewed(request, scope, found, config), request.signal);
      // There is time left: what could not be renewed yet is still good.
      if (!early.ok) failed(request, scope, early.reason);
      return { available: true, data: early.ok ? early.tokenData : found.token_data };
    }
    if (config === null) {
      tell(`KEYCHAIN: Entry '${request.name}' expired`, request, scope);
      return { available: false, reason: 'expired' };
    }
    if (found.renewal?.granted !== true) return waitForOthers(request, scope, found);
    const renewal = await orAborted(renewed(request, scope, found, config), request.signal);
    return renewal.ok ? { available: true, data: renewal.tokenData } : failed(request, scope, renewal.reason);
  }

  /** Somebody else renews. They may be in this worker, in another one, or gone: then the grant ends and is ours to ask for. */
  async function waitForOthers(request: EntryRequest, scope: EntryScope, found: Expired): Promise<EntryValue> {
    const own = renewals.get(found.cache_key);
    if (own !== undefined) {
      const renewal = await orAborted(own, request.signal);
      if (!renewal.ok) return failed(request, scope, renewal.reason);
    }
    const until = Math.min(Date.parse(found.renewal?.until ?? '') || 0, now() + WAIT_MAX_MS);
    for (let claimed = false; ; ) {
      if (now() <= until) await orAborted(changed(request, scope, found.cache_key, until), request.signal);
      const isOver = now() > until;
      const again = await read(request, scope, isOver);
      if (again.status === 'success') return { available: true, data: again.token_data };
      if (again.status === 'expired' && isOver && again.renewal?.granted === true) return use(request, scope, again);
      if (again.status === 'not_found' || claimed)
        return failed(request, scope, 'another reader did not renew it in time');
      claimed = isOver;
      await pause(POLL_MS, undefined, { signal: request.signal });
    }
  }

  /**
   * Resolves when the entry is no longer what it was, or the grant is over. One look at a time for all tries of this
   * worker that wait for the entry; each of them then reads it for itself.
   */
  function changed(request: EntryRequest, scope: EntryScope, key: string, until: number): Promise<void> {
    const known = looks.get(key);
    if (known !== undefined) return known;
    const signal = AbortSignal.timeout(WAIT_MAX_MS);
    const look = async () => {
      while (now() <= until && (await read({ ...request, signal }, scope, false)).status === 'expired') {
        await pause(POLL_MS, undefined, { signal });
      }
    };
    // What goes wrong here meets each of the readers by itself.
    const looking = look()
      .catch(() => {})
      .finally(() => looks.delete(key));
    looks.set(key, looking);
    return looking;
  }

  /** Starts the one renewal that was granted; it ends whatever becomes of the try that started it. */
  function renewed(request: EntryRequest, scope: EntryScope, found: Found, config: RenewConfig): Promise<Renewal> {
    const work = () => renew(request, scope, found, config);
    const renewal = parts.spans === undefined ? work() : parts.spans.renewal(request.name, work);
    void renewal.then(({ ok }) =>
      parts.meter?.count('svc_keychain_renewals_total', { outcome: ok ? 'renewed' : 'failed' }),
    );
    const key = found.cache_key;
    renewals.delete(key);
    renewals.set(key, renewal);
    const [oldest] = renewals.keys();
    if (renewals.size > RENEWALS_KEPT && oldest !== undefined) renewals.delete(oldest);
    const left = Math.min(Math.max((Date.parse(found.renewal?.until ?? '') || 0) - now(), 0), WAIT_MAX_MS);
    setTimeout(() => {
      if (renewals.get(key) === renewal) renewals.delete(key);
    }, left).unref();
    return renewal;
  }

  /** HTTP 200 only, once; stored back in the same scope. */
  async function renew(request: EntryRequest, scope: EntryScope, found: Found, config: RenewConfig): Promise<Renewal> {
    const signal = AbortSignal.timeout(WAIT_MAX_MS);
    const credentialType = found.credential_type ?? 'token';
    let renewal: Renewal;
    try {
      renewal = readRenewal(config, await requests.send(tokenRequest(config, encodingOf(credentialType)), signal));
    } catch (error) {
      // Errors of token requests name no address, header or body.
      return { ok: false, reason: error instanceof Error ? error.message : 'the request failed' };
    }
    if (!renewal.ok) return renewal;
    try {
      await client.keychainStore(request.catalogId, request.name, {
        body: storedAgain(request, scope, found, config, renewal),
        signal,
      });
    } catch (error) {
      // The token is good for this try; whoever comes next renews again.
      const reason = error instanceof ApiError ? error.code : 'the server does not answer';
      tell(
        `KEYCHAIN: Failed to renew '${request.name}'`,
        request,
        scope,
        `the new token could not be stored (${reason})`,
      );
    }
    return renewal;
  }

  return {
    async resolve(request) {
      const scopes = request.scope === null ? LOOKED_AT : [request.scope];
      for (const scope of scopes) {
        try {
          const found = await read(request, scope, true);
          if (found.status !== 'not_found') return await use(request, scope, found);
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          tell('A keychain entry cannot be read', request, scope, error.code);
          return { available: false, reason: error.code };
        }
      }
      tell(`KEYCHAIN: Entry '${request.name}' not found`, request, request.scope);
      return { available: false, reason: 'not_found' };
    },
  };
}

function configOf(found: Found): RenewConfig | null {
  const { renew_config: config } = found;
  if (config === undefined || !found.auto_renew) return null;
  return {
    endpoint: config.endpoint,
    method: config.method,
    headers: config.headers,
    data: config.data,
    tokenField: config.token_field,
    ttlField: config.ttl_field,
  };
}

function storedAgain(
  request: EntryRequest,
  scope: EntryScope,
  found: Found,
  config: RenewConfig,
  renewal: Renewal & { ok: true },
): JsonMap {
  return {
    token_data: renewal.tokenData,
    credential_type: found.credential_type ?? 'token',
    cache_type: found.cache_type ?? 'token',
    scope_type: scope,
    execution_id: scope === 'global' ? null : request.executionId,
    ttl_seconds: renewal.ttlSeconds,
    auto_renew: true,
    renew_config: {
      endpoint: config.endpoint,
      method: config.method || RENEW_DEFAULTS.method,
      headers: config.headers,
      data: config.data,
      token_field: config.tokenField,
      ttl_field: config.ttlField,
    },
  };
}

/** The value of a shared promise, or the reason of this reader's signal when that comes first. */
async function orAborted<T>(shared: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([shared, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
