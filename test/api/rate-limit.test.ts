import { expect, test } from 'vitest';
import type { Identity } from '../../actors/access-service.ts';
import { fakeServices } from './fake-services.ts';
import { ask, CONFIG, testHost } from './test-host.ts';

/** One request a thousand seconds: within a test no bucket fills again. */
const LIMITS = { rateLimitPerSecond: 0.001, rateLimitBurst: 3 };

test('an address gets as many requests as the burst, then 429 and when to come again', async () => {
  const { app } = testHost(fakeServices(), { config: { ...CONFIG, ...LIMITS } });
  const status = async (remoteAddress: string, url = '/api/machines') =>
    (await ask(app, 'GET', url, { remoteAddress })).status;
  expect([await status('10.0.0.1'), await status('10.0.0.1'), await status('10.0.0.1')]).toEqual([200, 200, 200]);
  const refused = await ask(app, 'GET', '/api/machines', { remoteAddress: '10.0.0.1' });
  expect([refused.status, refused.json.code, refused.headers['retry-after']]).toEqual([429, 'rate_limited', '1000']);
  expect(refused.json.detail).toEqual(expect.any(String));
  expect(await status('10.0.0.2')).toBe(200);
  for (let use = 0; use < 5; use++) expect(await status('10.0.0.1', '/health')).toBe(200);
});

test('a limit close to nothing sends nobody away for years', async () => {
  const { app } = testHost(fakeServices(), { config: { ...CONFIG, rateLimitPerSecond: 1e-9, rateLimitBurst: 1 } });
  expect((await ask(app, 'GET', '/api/machines')).status).toBe(200);
  const refused = await ask(app, 'GET', '/api/machines');
  expect([refused.status, refused.headers['retry-after']]).toEqual([429, '3600']);
});

test('workers are never held up', async () => {
  const { app } = testHost(fakeServices(), { config: { ...CONFIG, ...LIMITS } });
  const payload = { worker_id: 'worker-7', instance: 'i1' };
  for (let use = 0; use < 6; use++) {
    expect((await ask(app, 'POST', '/api/worker/exchange', { payload })).status).toBe(200);
  }
});

test('in enforce mode each token has a limit of its own', async () => {
  const identities = {
    identify: async (token: string): Promise<Identity | null> => ({
      ...{ actor: token, role: 'viewer' as const, email: null, displayName: null, expiresAt: null },
    }),
    onRevoked: () => () => {},
  };
  const config = { ...CONFIG, ...LIMITS, authMode: 'enforce' as const };
  const { app } = testHost(fakeServices({ identities }), { config });
  const status = async (token: string) =>
    (await ask(app, 'GET', '/api/machines', { headers: { authorization: `Bearer ${token}` } })).status;
  for (let use = 0; use < 3; use++) expect(await status('ann')).toBe(200);
  expect([await status('ann'), await status('bob')]).toEqual([429, 200]);
});

test('without the setting there is no limit', async () => {
  const { app } = testHost();
  for (let use = 0; use < 150; use++) expect((await ask(app, 'GET', '/api/machines')).status).toBe(200);
});

test('behind a trusted proxy the address is the one the proxy tells, from anybody else it is not believed', async () => {
  const config = { ...CONFIG, ...LIMITS, rateLimitBurst: 1, trustProxy: ['10.1.0.0/16', 'loopback'] };
  const { app } = testHost(fakeServices(), { config });
  const status = async (remoteAddress: string, told: string) =>
    (await ask(app, 'GET', '/api/machines', { remoteAddress, headers: { 'x-forwarded-for': told } })).status;
  expect([await status('10.1.2.3', '9.9.9.1'), await status('10.1.2.3', '9.9.9.2')]).toEqual([200, 200]);
  expect(await status('127.0.0.1', '9.9.9.2')).toBe(429);
  expect([await status('10.2.0.1', '9.9.9.3'), await status('10.2.0.1', '9.9.9.4')]).toEqual([200, 429]);
});
