/**
 * Opens the vault at the start of a server: finds the keys, proves them against the canaries in the database, and
 * refuses to serve with a key that is weak, wrong or missing. A wrong key that only shows at the first read would have
 * sealed new values by then, so the proof comes before anything else.
 */
import { DomainError } from '../../actors/errors.ts';
import type { Log } from '../../actors/ports.ts';
import type { Binding, Vault } from '../../actors/vault.ts';
import type { Json } from '../../machines/json.ts';
import { ConfigError } from '../config.ts';
import type { EncryptionKey } from '../config-values.ts';
import { KID, openText, readEnvelope, sealText } from './envelope.ts';
import { keyFileOf, makeKeyFile, readKeyFile } from './key-file.ts';
import { weaknessOf } from './weak-key.ts';

/** Rows of `core.encryption_key`. */
export interface CanaryStore {
  list(): Promise<readonly Canary[]>;
  /** Stores a canary unless the kid has one; returns the stored one. */
  add(kid: string, canary: string): Promise<Canary>;
}

export interface Canary {
  readonly kid: string;
  readonly canary: string;
  readonly retired: boolean;
}

export interface VaultOptions {
  /** The first one seals, all of them open. Empty: the key file. */
  readonly keys: readonly EncryptionKey[];
  readonly dataDir: string;
  /** The key file may be used, and made (open mode on a loopback address). */
  readonly allowGenerate: boolean;
}

const GENERATED_KID = 'k1';
const CANARY_TEXT = 'callboard canary';

/** The keys of the configuration in order: those of `SVC_ENCRYPTION_KEYS`, then `SVC_ENCRYPTION_KEY` as k1. */
export function configuredKeys(config: {
  readonly encryptionKeys: readonly EncryptionKey[];
  readonly encryptionKey: Uint8Array | null;
}): readonly EncryptionKey[] {
  const { encryptionKeys, encryptionKey } = config;
  if (encryptionKey === null || encryptionKeys.some((each) => each.kid === 'k1')) return encryptionKeys;
  return [...encryptionKeys, { kid: 'k1', key: encryptionKey }];
}

/**
 * The keys, proven against what the database knows; before anything is changed there. Throws ConfigError (exit 78) when
 * none is configured, or one is weak, wrong, missing or retired.
 */
export async function openKeyRing(
  options: VaultOptions,
  known: readonly Canary[],
  log: Log,
): Promise<readonly EncryptionKey[]> {
  const keys = options.keys.length > 0 ? options.keys : await ownKeys(options, known, log);
  refuse(weakKeys(keys));
  refuse(missingKeys(keys, known));
  for (const key of keys) {
    const stored = known.find((each) => each.kid === key.kid);
    if (stored !== undefined) prove(key, stored);
  }
  return keys;
}

/** Plants the canaries of keys that are new to this database. Throws what `openKeyRing` throws. */
export async function openVault(options: VaultOptions, store: CanaryStore, log: Log): Promise<Vault> {
  const known = await store.list();
  const keys = await openKeyRing(options, known, log);
  for (const { kid, key } of keys) {
    if (known.some((each) => each.kid === kid)) continue;
    // Another server may have planted its own meanwhile: the stored one counts.
    prove({ kid, key }, await store.add(kid, sealText(kid, key, canaryBinding(kid), CANARY_TEXT)));
  }
  const [active] = keys;
  if (active === undefined) throw new ConfigError(['SVC_ENCRYPTION_KEY is required here']);
  return vaultOf(active, keys);
}

async function ownKeys(options: VaultOptions, known: readonly Canary[], log: Log): Promise<readonly EncryptionKey[]> {
  if (!options.allowGenerate) {
    throw new ConfigError([
      'SVC_ENCRYPTION_KEY is required unless the server runs in open mode on a loopback address (openssl rand -base64 32)',
    ]);
  }
  const found = await readKeyFile(options.dataDir);
  if (found !== null) return [{ kid: GENERATED_KID, key: found.key }];
  const open = known.filter((each) => !each.retired);
  if (open.length > 0) {
    throw new ConfigError([
      `SVC_ENCRYPTION_KEY is not set and ${keyFileOf(options.dataDir)} is missing, but this database holds values sealed with key ${names(open)}; bring the key back, a new one cannot open them`,
    ]);
  }
  const made = await makeKeyFile(options.dataDir);
  if (made.made) {
    log.warn(
      'An encryption key was made for this machine. Keep a copy: without it stored credentials cannot be read.',
      {
        file: made.file,
        kid: GENERATED_KID,
      },
    );
  }
  return [{ kid: GENERATED_KID, key: made.key }];
}

function weakKeys(keys: readonly EncryptionKey[]): readonly string[] {
  return keys.flatMap(({ kid, key }) => {
    const weakness = KID.test(kid) ? weaknessOf(key) : 'has an id that does not fit';
    return weakness === null ? [] : [`The encryption key ${kid} ${weakness}; make one with: openssl rand -base64 32`];
  });
}

function missingKeys(keys: readonly EncryptionKey[], known: readonly Canary[]): readonly string[] {
  const missing = known.filter((each) => !each.retired && !keys.some((key) => key.kid === each.kid));
  const retired = known.find((each) => each.retired && each.kid === keys[0]?.kid);
  return [
    ...missing.map(
      ({ kid }) =>
        `The encryption key ${kid} is missing, and this database may hold values sealed with it; add it to SVC_ENCRYPTION_KEYS, or retire it after a rotation`,
    ),
    ...(retired === undefined ? [] : [`The encryption key ${retired.kid} was retired and cannot seal again`]),
  ];
}

/** Opens the canary of a key. */
function prove({ kid, key }: EncryptionKey, stored: Canary): void {
  const envelope = readEnvelope(stored.canary);
  const opened = envelope === null ? null : openText(key, canaryBinding(kid), envelope);
  if (opened === CANARY_TEXT) return;
  throw new ConfigError([
    `The encryption key ${kid} is not the key of that id this database was written with; nothing stored with it could be read`,
  ]);
}

function canaryBinding(kid: string): Binding {
  return { table: 'encryption_key', row: kid, name: kid, scope: '' };
}

function vaultOf(active: EncryptionKey, keys: readonly EncryptionKey[]): Vault {
  const ring = new Map(keys.map(({ kid, key }) => [kid, key]));

  function openAny(binding: Binding, sealed: string): { readonly kid: string; readonly text: string } {
    const envelope = readEnvelope(sealed);
    if (envelope === null) throw decryptFailed('unknown');
    const key = ring.get(envelope.kid);
    const text = key === undefined ? null : openText(key, binding, envelope);
    if (text === null) throw decryptFailed(envelope.kid);
    return { kid: envelope.kid, text };
  }

  return {
    activeKid: active.kid,
    seal: (binding, value) => sealText(active.kid, active.key, binding, JSON.stringify(value)),
    // What opens was sealed by `seal`, so the text is JSON.
    open: (binding, sealed) => JSON.parse(openAny(binding, sealed).text) as Json,
    rewrap: (binding, sealed) => {
      const { kid, text } = openAny(binding, sealed);
      return kid === active.kid ? null : sealText(active.kid, active.key, binding, text);
    },
  };
}

function decryptFailed(kid: string): DomainError {
  return new DomainError('decrypt_failed', `Cannot decrypt the stored data (key id ${kid})`);
}

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new ConfigError(problems);
}

function names(canaries: readonly Canary[]): string {
  return canaries.map(({ kid }) => kid).join(', ');
}
