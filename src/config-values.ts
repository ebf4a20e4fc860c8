/**
 * What a setting is, and how its text becomes a value. A parser returns the value or throws a `Misfit` whose message
 * continues the sentence "SVC_X …" ("must be a whole number from 1 to 65535"). Units belong to the name of the setting.
 */
import { isIP } from 'node:net';

/** Which process of Callboard reads a setting. */
export type Reader = 'server' | 'worker' | 'gateway' | 'recovery helper' | 'command line' | 'every process';

export interface Setting<T> {
  readonly env: string;
  readonly parse: (text: string) => T;
  readonly fallback: T;
  /** How the default is printed; empty when there is none. */
  readonly shown: string;
  readonly sentence: string;
  readonly reader: Reader;
  /** `<env>_FILE` may name a file that holds the value, and the value is never printed. */
  readonly secret: boolean;
  /** An older name of the same setting, read when `env` is not set. */
  readonly alias: string | null;
}

export class Misfit extends Error {}

type Parser<T> = (text: string) => T;

/** Declares one row of config-table.ts. */
export function setting<T>(
  env: string,
  parse: Parser<T>,
  fallback: T,
  reader: Reader,
  sentence: string,
  options: { readonly secret?: boolean; readonly shown?: string; readonly alias?: string } = {},
): Setting<T> {
  const shown = options.shown ?? (fallback === null ? '' : String(fallback));
  return {
    env,
    parse,
    fallback,
    reader,
    sentence,
    secret: options.secret ?? false,
    shown,
    alias: options.alias ?? null,
  };
}

export function text(pattern?: RegExp, expected = 'fit its form'): Parser<string> {
  return (value) => {
    if (pattern !== undefined && !pattern.test(value)) throw new Misfit(`must ${expected}`);
    return value;
  };
}

/** For a setting without a default: its value, or null when it is not set. */
export function optional<T>(parse: Parser<T>): Parser<T | null> {
  return parse;
}

export function whole(min: number, max: number = Number.MAX_SAFE_INTEGER): Parser<number> {
  return (value) => {
    const number = Number(value);
    if (!/^\d{1,16}$/.test(value) || number < min || number > max) {
      const upTo = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
      throw new Misfit(`must be a whole number ${upTo}`);
    }
    return number;
  };
}

/** Timers count milliseconds in 31 bits: a longer wait would be over at once. */
const SECONDS_MAX = 2_000_000;

/** Seconds, with decimals allowed; at most 23 days. */
export function duration(min: number): Parser<number> {
  return (value) => {
    const number = Number(value);
    if (!/^\d+(\.\d+)?$/.test(value) || number < min) {
      throw new Misfit(`must be a number of seconds of at least ${min}`);
    }
    if (number > SECONDS_MAX) {
      throw new Misfit(`must be a number of seconds of at most ${SECONDS_MAX}`);
    }
    return number;
  };
}

/** A number with decimals allowed. */
export function decimal(min: number, max: number): Parser<number> {
  return (value) => {
    const number = Number(value);
    if (!/^\d+(\.\d+)?$/.test(value) || number < min || number > max) {
      throw new Misfit(`must be a number from ${min} to ${max}`);
    }
    return number;
  };
}

/** A share of a whole, decimals allowed. */
export function share(): Parser<number> {
  return (value) => {
    const number = Number(value);
    if (!/^\d+(\.\d+)?$/.test(value) || number > 1) throw new Misfit('must be a number from 0 to 1');
    return number;
  };
}

export function flag(): Parser<boolean> {
  return (value) => {
    const word = value.toLowerCase();
    if (['true', '1', 'yes', 'on'].includes(word)) return true;
    if (['false', '0', 'no', 'off'].includes(word)) return false;
    throw new Misfit('must be true or false');
  };
}

export function oneOf<const T extends string>(...words: readonly T[]): Parser<T> {
  return (value) => {
    const found = words.find((word) => word === value.toLowerCase());
    if (found === undefined) throw new Misfit(`must be one of ${words.join(', ')}`);
    return found;
  };
}

/** A comma list; blanks around the parts do not count. */
export function list(): Parser<readonly string[]> {
  return (value) =>
    value
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '');
}

/** A comma list whose parts all fit; `expected` continues "must hold …". */
export function listOf(fits: (part: string) => boolean, expected: string): Parser<readonly string[]> {
  return (value) => {
    const parts = list()(value);
    const wrong = parts.find((part) => !fits(part));
    if (wrong !== undefined) throw new Misfit(`must hold ${expected}, not '${wrong}'`);
    return parts;
  };
}

/** What a browser sends as `Origin`: scheme, host and a port that is not the scheme's own, no path. */
export function isOrigin(text: string): boolean {
  if (/^https?:/i.test(text)) return URL.canParse(text) && new URL(text).origin === text;
  return /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@]+$/.test(text);
}

/** What `SVC_EGRESS_ALLOW` and `_DENY` name: a host, `*.suffix`, an address or a range, the first three with a port or without. */
export function isTarget(text: string): boolean {
  const [address = '', bits] = text.split('/');
  const version = isIP(address);
  if (version !== 0)
    return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
  const [, host = '', port = '0'] = /^(.*?)(?::(\d{1,5}))?$/.exec(text) ?? [];
  return /^(?:\*\.)?[^\s*/]+$/.test(host) && Number(port) <= 65_535;
}

/** Whose word about the origin of a request counts: addresses, networks (`10.0.0.0/8`), `loopback`; `false` is nobody. */
export function proxies(): Parser<readonly string[]> {
  return (value) => {
    if (value.toLowerCase() === 'false') return [];
    const named = list()(value);
    const wrong = named.find((name) => name !== 'loopback' && !isNetwork(name));
    if (wrong !== undefined) {
      throw new Misfit(
        `must be false or a list of addresses, networks such as 10.0.0.0/8, and loopback; not '${wrong}'`,
      );
    }
    return named;
  };
}

function isNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  return (
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) >= 1 && Number(bits) <= (version === 4 ? 32 : 128))
  );
}

/** A PostgreSQL address; its host may stand in the query instead (`?host=/run/postgresql`), which URL syntax refuses. */
export function databaseAddress(): Parser<string> {
  return (value) => {
    const match = /^postgres(?:ql)?:\/\/(?:[^/@\s]*@)?([^/?\s]*)[^\s]*$/.exec(value);
    if (match === null || (match[1] !== '' && !URL.canParse(value))) {
      throw new Misfit('must be an address starting with postgres:// or postgresql://');
    }
    return value;
  };
}

/** An address with one of the schemes, kept as text without a trailing slash. */
export function address(...schemes: readonly string[]): Parser<string> {
  return (value) => {
    const url = URL.canParse(value) ? new URL(value) : null;
    if (url === null || !schemes.includes(url.protocol.slice(0, -1))) {
      throw new Misfit(`must be an address starting with ${schemes.map((scheme) => `${scheme}://`).join(' or ')}`);
    }
    return value.replace(/\/$/, '');
  };
}

/** A comma list of addresses, at least one. */
export function addresses(...schemes: readonly string[]): Parser<readonly string[]> {
  const one = address(...schemes);
  return (value) => {
    const found = list()(value).map(one);
    if (found.length === 0) throw new Misfit('must name at least one address');
    return found;
  };
}

export interface EncryptionKey {
  readonly kid: string;
  /** 32 bytes. */
  readonly key: Uint8Array;
}

/** `kid:base64,…`; the first key encrypts, all of them decrypt. */
export function keys(): Parser<readonly EncryptionKey[]> {
  return (value) => {
    const found = value.split(',').map((part) => {
      const [kid = '', encoded = ''] = part.trim().split(':');
      if (!/^[A-Za-z0-9_-]{1,32}$/.test(kid)) throw new Misfit('must be a comma list of kid:base64');
      return { kid, key: keyBytes(encoded) };
    });
    if (new Set(found.map((each) => each.kid)).size < found.length) throw new Misfit('must not name a key id twice');
    return found;
  };
}

export interface StaticToken {
  readonly name: string;
  readonly role: 'viewer' | 'operator' | 'admin' | 'worker';
  /** SHA-256 of the token. */
  readonly digest: Uint8Array;
}

const STATIC_ROLES = ['viewer', 'operator', 'admin', 'worker'] as const;

/** `name:role:sha256hex,…`. */
export function staticTokens(): Parser<readonly StaticToken[]> {
  return (value) => {
    const found = value.split(',').map((part): StaticToken => {
      const [name = '', word = '', digest = '', ...rest] = part.trim().split(':');
      const role = STATIC_ROLES.find((each) => each === word.toLowerCase());
      const isWhole = /^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}$/.test(name) && /^[0-9a-f]{64}$/i.test(digest);
      if (!isWhole || role === undefined || rest.length > 0) {
        throw new Misfit('must be a comma list of name:role:sha256, the role viewer, operator, admin or worker');
      }
      return { name, role, digest: Buffer.from(digest, 'hex') };
    });
    if (new Set(found.map((each) => each.name)).size < found.length) throw new Misfit('must not give a name twice');
    return found;
  };
}

/** One key of 32 bytes in base64. */
export function key(): Parser<Uint8Array> {
  return keyBytes;
}

function keyBytes(encoded: string): Uint8Array {
  const bytes = Buffer.from(encoded, 'base64');
  if (bytes.length !== 32) throw new Misfit('must hold 32 bytes in base64 (openssl rand -base64 32)');
  return bytes;
}
