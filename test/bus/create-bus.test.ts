import { expect, test } from 'vitest';
import { createBus } from '../../src/bus/create-bus.ts';
import { ConfigError, readConfig } from '../../src/config.ts';
import { silentLog } from '../../src/log.ts';
import { startServer } from '../../src/server.ts';

const parts = {
  databaseUrl: 'postgres://nobody@127.0.0.1:1/x',
  serverUrl: () => 'http://127.0.0.1:8082',
  log: silentLog,
  meter: { count() {}, observe() {}, gauge() {} },
};

async function stateWith(settings: Readonly<Record<string, string>>): Promise<string> {
  const bus = await createBus(readConfig(settings), parts);
  const state = bus.state();
  await bus.close();
  return state;
}

test('a bus that cannot be reached does not keep a server from starting', async () => {
  expect(await stateWith({})).toBe('degraded');
  expect(await stateWith({ SVC_NATS_URL: 'nats://127.0.0.1:1' })).toBe('degraded');
});

test('what SVC_BUS says wins over an address', async () => {
  expect(await stateWith({ SVC_BUS: 'none', SVC_NATS_URL: 'nats://127.0.0.1:1' })).toBe('down');
});

test('NATS without an address is a problem of the settings', async () => {
  await expect(stateWith({ SVC_BUS: 'nats' })).rejects.toThrow(ConfigError);
  await expect(stateWith({ SVC_BUS: 'nats' })).rejects.toThrow('SVC_NATS_URL');
});

test('settings that do not belong together end a start before the database is asked', async () => {
  const config = readConfig({
    SVC_BUS: 'nats',
    SVC_PORT: '0',
    SVC_DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nowhere',
  });
  await expect(startServer(config, { log: silentLog })).rejects.toThrow('SVC_NATS_URL must be set');
});
