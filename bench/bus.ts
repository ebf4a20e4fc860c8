/**
 * How long a hint takes from one process to another, over LISTEN/NOTIFY and over NATS JetStream, and how many a second pass.
 * Both ends are in this process, each with connections of its own. Needs a nats-server. `node bench/bus.ts`
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bus } from '../actors/ports.ts';
import { createNatsBus } from '../src/bus/nats-bus.ts';
import { createPostgresBus } from '../src/bus/postgres-bus.ts';
import { startEmbedded } from '../src/embedded/embedded-postgres.ts';
import { silentLog } from '../src/log.ts';
import { startTestNats } from '../test/support/nats.ts';
import { quantile } from './load.ts';

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
const HINTS = 300;
const BURST = 4_000;

const folder = await mkdtemp(join(tmpdir(), 'callboard-bench-'));
await chmod(folder, 0o755);
const database = await startEmbedded(folder, silentLog);
await using nats = await startTestNats('-js');
const common = {
  coalesceMs: 0,
  serverUrl: () => 'http://callboard:8082',
  log: silentLog,
  meter: { count() {}, observe() {}, gauge() {} },
};
const servers = { urls: [`nats://${nats.server}`], user: null, password: null, token: null };
const kinds: Readonly<Record<string, () => Bus>> = {
  'LISTEN/NOTIFY': () => createPostgresBus({ url: database.url, listenUrl: database.url, ...common }),
  'NATS JetStream': () => createNatsBus({ servers, stream: 'SVC_COMMANDS', ...common }),
};

try {
  const medians = new Map<string, number[]>();
  // In turns, so that a busy moment of the machine meets both.
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [name, open] of Object.entries(kinds)) {
      const { latencies, rate } = await measure(open);
      latencies.sort((a, b) => a - b);
      const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
      medians.set(name, [...(medians.get(name) ?? []), p50]);
      console.log(
        `${name.padEnd(16)} a hint alone: p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms; ${BURST} at once: ${rate.toFixed(0)}/s`,
      );
    }
  }
  const [postgres = 0, other = 0] = [...medians.values()].map(
    (values) => values.sort((a, b) => a - b)[values.length >> 1],
  );
  console.log(`median of the medians: NATS ${(other / postgres).toFixed(2)} of LISTEN/NOTIFY`);
} finally {
  await database.stop();
  await rm(folder, { recursive: true, force: true });
}

async function measure(open: () => Bus): Promise<{ latencies: number[]; rate: number }> {
  const [speaker, hearer] = [open(), open()];
  while (speaker.state() !== 'ok' || hearer.state() !== 'ok') await pause(20);
  const latencies: number[] = [];
  let commandId = Math.floor(Math.random() * 1e12);
  const hint = () => {
    commandId += 1;
    return {
      execution_id: 41007,
      command_id: commandId,
      event_id: commandId,
      step: 'fetch',
      attempt: 0,
      tool_kind: 'http',
    };
  };
  for (let index = 0; index < HINTS; index += 1) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const leave = hearer.subscribe(() => resolve());
    const from = performance.now();
    speaker.publish('commands.shared', [hint()]);
    await promise;
    latencies.push(performance.now() - from);
    leave();
    await pause(2);
  }
  let heard = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  hearer.subscribe((_, hints) => {
    for (const each of hints) heard += Number(each['count']) || 1;
    if (heard >= BURST) resolve();
  });
  const from = performance.now();
  for (let index = 0; index < BURST; index += 40) {
    speaker.publish('commands.shared', Array.from({ length: 40 }, hint));
    await new Promise((next) => setImmediate(next));
  }
  await promise;
  const rate = (1_000 * BURST) / (performance.now() - from);
  await Promise.all([speaker.close(), hearer.close()]);
  return { latencies, rate };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
