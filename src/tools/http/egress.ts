/**
 * Where a request of a playbook may go (api 8.4). A target is judged twice: its name, port and literal address before
 * a connection is asked for, and every resolved address at the moment of connecting, so that a name cannot change its
 * address in between. Deny beats allow, allow beats the policy.
 */
import { isIP } from 'node:net';
import { innerAddresses, listed, localRanges, metadataRanges, rangeList } from './addresses.ts';

export type EgressPolicy = 'open' | 'no-metadata' | 'public-only';

export interface EgressOptions {
  readonly policy: EgressPolicy;
  /** Hosts, `*.suffix`, CIDR ranges or `host:port` that the policy does not block. */
  readonly allow: readonly string[];
  /** The same forms; blocked under every policy. */
  readonly deny: readonly string[];
}

/** A target that may not be reached; the tool answers with code `EGRESS_DENIED`. */
export class EgressDenied extends Error {
  override readonly name = 'EgressDenied';
  readonly code = 'EGRESS_DENIED';
}

export interface Egress {
  /** Throws EgressDenied for a host name, port or literal address that is blocked. `host` may have brackets. */
  checkTarget(host: string, port: number): void;
  /** Throws EgressDenied when one of the addresses a host resolved to is blocked. */
  checkAddresses(host: string, port: number, addresses: readonly string[]): void;
}

/** Reads the rules once. Throws RangeError for an entry of `allow` or `deny` that cannot be read. */
export function createEgress(options: EgressOptions): Egress {
  const allow = readRules(options.allow);
  const deny = readRules(options.deny);
  const ranges = rangeList(
    options.policy === 'open'
      ? []
      : options.policy === 'public-only'
        ? [...metadataRanges, ...localRanges]
        : metadataRanges,
  );

  const checkAddresses: Egress['checkAddresses'] = (host, port, addresses) => {
    const name = plainHost(host);
    for (const address of addresses) {
      if (deny.matches(name, port, address)) throw denied(name, 'is on the deny list');
      if (allow.matches(name, port, address)) continue;
      if (listed(ranges, address)) throw denied(name, `has an address that the egress policy ${options.policy} blocks`);
    }
  };

  return {
    checkAddresses,
    checkTarget(host, port) {
      const name = plainHost(host);
      if (deny.matches(name, port)) throw denied(name, 'is on the deny list');
      if (isIP(name) !== 0) checkAddresses(name, port, [name]);
      if (options.policy === 'open' || allow.matches(name, port, isIP(name) === 0 ? undefined : name)) return;
      if (name === 'metadata.google.internal') throw denied(name, `is blocked by the egress policy ${options.policy}`);
      // Of this machine by definition (RFC 6761), whatever a resolver makes of it.
      if (options.policy === 'public-only' && /(?:^|\.)localhost$/.test(name))
        throw denied(name, 'is blocked by the egress policy public-only');
      if (options.policy === 'public-only' && port !== 80 && port !== 443 && port < 1024)
        throw denied(name, `port ${port} is blocked by the egress policy public-only`);
    },
  };
}

interface Rules {
  matches(host: string, port: number, address?: string): boolean;
}

function readRules(entries: readonly string[]): Rules {
  const ranges: string[] = [];
  const names: { readonly test: (host: string) => boolean; readonly port: number | undefined }[] = [];
  for (const raw of entries) {
    const entry = raw.trim().toLowerCase();
    if (entry === '') continue;
    if (isIP(entry.split('/')[0] ?? '') !== 0) {
      ranges.push(entry);
      continue;
    }
    const [, host = '', port] = /^(.*?)(?::(\d{1,5}))?$/.exec(entry) ?? [];
    const name = plainHost(host);
    if (!/^(?:\*\.)?[^\s*/]+$/.test(name)) throw new RangeError(`'${raw}' is not a host, *.suffix, range or host:port`);
    const suffix = name.startsWith('*.') ? name.slice(1) : undefined;
    const test = suffix === undefined ? (at: string) => at === name : (at: string) => at.endsWith(suffix);
    names.push({ test, port: port === undefined ? undefined : Number(port) });
  }
  const list = rangeList(ranges);
  return {
    matches: (host, port, address) => {
      // An address with a port is meant whatever name leads to it.
      const at = address === undefined ? [host] : [host, address, ...innerAddresses(address)];
      return (
        names.some((rule) => at.some(rule.test) && (rule.port === undefined || rule.port === port)) ||
        (address !== undefined && listed(list, address))
      );
    },
  };
}

/** A host in lower case, without the brackets of an IPv6 literal and without the dot at its end. */
export function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.+$/, '');
}

function denied(host: string, why: string): EgressDenied {
  return new EgressDenied(`${host} ${why}`);
}
