import { describe, expect, it } from 'vitest';
import { createEgress, EgressDenied, type EgressOptions } from '../../src/tools/http/egress.ts';

const egress = (options: Partial<EgressOptions> = {}) =>
  createEgress({ policy: 'no-metadata', allow: [], deny: [], ...options });

/** Judges a URL as the client does: first its host, then the address it resolves to. */
function passes(options: Partial<EgressOptions>, url: string, address?: string): boolean {
  const { hostname, port, protocol } = new URL(url);
  const number = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
  try {
    const rules = egress(options);
    rules.checkTarget(hostname, number);
    if (address !== undefined) rules.checkAddresses(hostname, number, ['203.0.113.9', address]);
    return true;
  } catch (error) {
    if (error instanceof EgressDenied) return false;
    throw error;
  }
}

describe('egress rules', () => {
  it.each([
    'http://169.254.169.254/latest',
    'http://2852039166/',
    'http://0xA9FEA9FE/',
    'http://0251.0376.0251.0376/',
    'http://169.254.43518/',
    'http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/',
    'http://169.254.169.254./',
    'http://[::ffff:169.254.169.254]/',
    'http://[::ffff:a9fe:a9fe]/',
    'http://[::169.254.169.254]/',
    'http://[64:ff9b::169.254.169.254]/',
    'http://[64:ff9b:1::a9fe:a9fe]/',
    'http://[2002:a9fe:a9fe::]/',
    'http://[0:0:0:0:ffff:0:a9fe:a9fe]/',
    'http://[2001:0:a9fe:a9fe::1]/',
    'http://[2001:0:5db8:d822::5601:5601]/',
    'http://[fe80::1]/',
    'http://[fd00:ec2::254]/',
    'http://100.100.100.200/',
    'http://168.63.129.16/',
    'http://[::ffff:168.63.129.16]/',
    'http://metadata.google.internal/',
    'http://METADATA.google.internal./',
  ])('keep %s out by default', (url) => {
    expect(passes({}, url)).toBe(false);
    expect(passes({ policy: 'open' }, url)).toBe(true);
  });

  it.each(['http://127.0.0.1:3000/', 'http://[::1]/', 'http://10.1.2.3/', 'http://localhost/', 'https://example.com/'])(
    'let %s out by default',
    (url) => expect(passes({}, url)).toBe(true),
  );

  it('look at every address a name resolves to', () => {
    expect(passes({}, 'http://innocent.test/', '169.254.169.254')).toBe(false);
    expect(passes({}, 'http://innocent.test/', '::ffff:169.254.169.254')).toBe(false);
    expect(passes({}, 'http://innocent.test/', '93.184.216.34')).toBe(true);
  });

  it.each([
    'http://127.0.0.1/',
    'http://2130706433/',
    'http://[::1]/',
    'http://[::]/',
    'http://0.0.0.0/',
    'http://10.0.0.1/',
    'http://172.31.0.1/',
    'http://192.168.1.1/',
    'http://100.64.0.1/',
    'http://224.0.0.1/',
    'http://255.255.255.255/',
    'http://[fd12::1]/',
    'http://[ff02::1]/',
    'http://[::ffff:127.0.0.1]/',
    'http://93.184.216.34:22/',
    'http://example.com:25/',
  ])('keep %s out when only the public internet is allowed', (url) =>
    expect(passes({ policy: 'public-only' }, url)).toBe(false),
  );

  it('let the usual and the high ports of the public internet through', () => {
    for (const port of [80, 443, 1024, 8080])
      expect(passes({ policy: 'public-only' }, `http://93.184.216.34:${port}/`)).toBe(true);
  });

  it('let an allowed target through, but no other', () => {
    const rules = { policy: 'public-only' as const, allow: ['db.test', '*.inner.test', '10.0.0.0/8', 'one.test:25'] };
    expect(passes(rules, 'http://db.test:22/', '192.168.0.1')).toBe(true);
    expect(passes(rules, 'http://a.b.inner.test/', '127.0.0.1')).toBe(true);
    expect(passes(rules, 'http://inner.test/', '127.0.0.1')).toBe(false);
    expect(passes(rules, 'http://10.9.9.9/')).toBe(true);
    expect(passes(rules, 'http://one.test:25/', '127.0.0.1')).toBe(true);
    expect(passes(rules, 'http://one.test:26/')).toBe(false);
  });

  it('let deny win over allow and over an open policy', () => {
    expect(passes({ policy: 'open', deny: ['bad.test'] }, 'http://bad.test./')).toBe(false);
    expect(passes({ policy: 'open', allow: ['bad.test'], deny: ['*.test'] }, 'http://bad.test/')).toBe(false);
    expect(passes({ policy: 'open', deny: ['10.0.0.0/8'] }, 'http://x.test/', '10.0.0.1')).toBe(false);
    expect(passes({ policy: 'open', deny: ['10.0.0.0/8'] }, 'http://x.test/', '::ffff:10.0.0.1')).toBe(false);
  });

  it('mean an address with a port whatever name leads to it', () => {
    const deny = ['10.0.0.5:5432', '[::1]:9000'];
    expect(passes({ policy: 'open', deny }, 'http://x.test:5432/', '10.0.0.5')).toBe(false);
    expect(passes({ policy: 'open', deny }, 'http://x.test:5432/', '::ffff:10.0.0.5')).toBe(false);
    expect(passes({ policy: 'open', deny }, 'http://x.test:5433/', '10.0.0.5')).toBe(true);
    expect(passes({ policy: 'open', deny }, 'http://x.test:9000/', '::1')).toBe(false);
    const allowed = { policy: 'public-only' as const, allow: ['203.0.113.9', '127.0.0.1:8080'] };
    expect(passes(allowed, 'http://x.test:8080/', '127.0.0.1')).toBe(true);
    expect(passes(allowed, 'http://x.test:8081/', '127.0.0.1')).toBe(false);
  });

  it('refuse an entry they cannot read', () => {
    expect(() => egress({ allow: ['http://x/'] })).toThrow(RangeError);
    expect(() => egress({ deny: ['10.0.0.0/99'] })).toThrow();
  });
});
