import { afterEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { silentLog } from '../../src/log.ts';
import type { Tool } from '../../src/tools/tool.ts';
import type { Command } from '../../src/wire/command.ts';
import type { ExchangeAnswer, ExchangeBody, ReportAnswer } from '../../src/wire/exchange.ts';
import { WorkerLoop } from '../../src/worker/loop.ts';
import { type RunningWorker, startWorker } from '../../src/worker/main.ts';
import type { WorkOptions } from '../../src/worker/work.ts';
import { bad, noop, ok } from './commands.ts';
import { type FakeServer, startFakeServer } from './fake-server.ts';

const NOOP = { kind: 'noop', result: { n: 1 } };

/** A tool whose runs end when the test says so, or when they are stopped. */
function held() {
  const open: { finish(): void; stopped: boolean }[] = [];
  const tool: Tool = {
    kind: 'shell',
    run: ({ signal }) =>
      new Promise((resolve) => {
        const run = { stopped: false, finish: () => resolve(ok({ exit_code: 0 })) };
        open.push(run);
        signal.addEventListener('abort', () => {
          run.stopped = true;
          resolve(bad('unknown'));
        });
      }),
  };
  return { tool, open };
}

let server: FakeServer;
let worker: RunningWorker;

async function start(options: {
  env?: Record<string, string>;
  tools?: readonly Tool[];
  onReport?: Parameters<typeof startFakeServer>[0];
}): Promise<void> {
  server = await startFakeServer(options.onReport);
  const config = readConfig({
    SVC_SERVER_URL: server.url,
    SVC_WORKER_NAME: 'worker-7',
    SVC_WORKER_HEARTBEAT_SECONDS: '0.1',
    SVC_WORKER_DRAIN_SECONDS: '5',
    ...options.env,
  });
  const tools = new Map([noop, ...(options.tools ?? [])].map((tool) => [tool.kind, tool]));
  worker = await startWorker({ config, log: silentLog, tools });
  await worker.registered;
}

afterEach(async () => {
  await worker?.stop();
  await server?.close();
});

const endsOf = (ids: readonly number[]) => ids.map((id) => `${id}:1:end`);
const handledIds = () => server.handled.map((report) => report.report_id);
const reportsSent = (id: string) =>
  server.calls.filter((call) => call.reports?.some((report) => report.report_id === id));

describe('the exchange loop', () => {
  it('registers, waits for a command, runs it and reports it', async () => {
    await start({});
    await server.when(() => server.calls.length > 0);
    server.issue(1, NOOP);
    await server.when(() => server.handled.length === 1);
    expect(server.registrations[0]).toMatchObject({ name: 'worker-7', capacity: 8, pools: ['shared'] });
    expect(server.handled[0]).toMatchObject({
      report_id: '1:1:end',
      command_id: 1,
      attempt: 1,
      outcome: 'ok',
      data: { n: 1 },
    });
    expect(server.calls[0]).toMatchObject({ worker_id: 'worker-7', status: 'ready', claim: { max: 8 } });
  });

  it('never waits in a call with reports, and takes successors in its answer', async () => {
    const onReport: Parameters<typeof startFakeServer>[0] = (report, fake) => {
      if (Number(report.command_id) < 40) fake.issue(Number(report.command_id) + 1, NOOP);
    };
    await start({ onReport });
    server.issue(1, NOOP);
    await server.when(() => server.handled.length === 40);
    for (const call of server.calls) {
      if ((call.reports?.length ?? 0) > 0) expect(call.claim?.wait_ms ?? 0).toBe(0);
    }
  });

  it('reports what ended at once before it polls again with its idle slots', async () => {
    await start({});
    await server.when(() => server.calls.length > 0);
    for (const id of [1, 2]) {
      const from = server.calls.length;
      server.issue(id, NOOP);
      await server.when(() => server.calls.length >= from + 2);
      const [first, second] = server.calls.slice(from);
      expect(first?.reports?.map((report) => report.report_id)).toEqual([`${id}:1:end`]);
      expect(second?.reports ?? []).toEqual([]);
      // One slot is claimed with the report.
      expect(second?.claim).toMatchObject({ max: 7, wait_ms: 20_000 });
    }
  });

  it('carries many short commands in few calls', async () => {
    await start({});
    const ids = Array.from({ length: 640 }, (_, index) => index + 1);
    for (const id of ids) server.issue(id, NOOP);
    await server.when(() => server.handled.length === 640);
    expect(new Set(handledIds())).toEqual(new Set(endsOf(ids)));
    expect(server.calls.length).toBeLessThan(100);
  });

  it('works on no more commands at once than it has slots', async () => {
    const { tool, open } = held();
    await start({ tools: [tool], env: { SVC_WORKER_CONCURRENCY: '2' } });
    for (const id of [1, 2, 3]) server.issue(id, { kind: 'shell', command: 'x' });
    await server.when(() => server.calls.some((call) => call.holding?.length === 2));
    expect(open).toHaveLength(2);
    for (const run of open) run.finish();
    await server.when(() => server.handled.length === 2);
    await expect.poll(() => open.length).toBe(3);
    open[2]?.finish();
    await server.when(() => server.handled.length === 3);
  });

  it('names what it holds while it works', async () => {
    const { tool, open } = held();
    await start({ tools: [tool] });
    server.issue(1, { kind: 'shell', command: 'x' });
    const beats = () => server.calls.filter((call) => call.holding?.some((hold) => hold.command_id === 1));
    await server.when(() => beats().length >= 4);
    open[0]?.finish();
    await server.when(() => server.handled.length === 1);
  });

  it('tells once that a long command has started', async () => {
    const { tool, open } = held();
    await start({ tools: [tool] });
    server.issue(1, { kind: 'shell', command: 'x' });
    await server.when(() => server.handled.length === 1);
    expect(server.handled[0]).toMatchObject({
      report_id: '1:1:start',
      events: [{ event_type: 'command.started', step: 'work', command_id: 1, attempt: 1 }],
    });
    open[0]?.finish();
    await server.when(() => server.handled.length === 2);
    expect(handledIds()).toEqual(['1:1:start', '1:1:end']);
  });
});

describe('when things get lost', () => {
  it('a report without an answer is sent again with its id, and done once', async () => {
    await start({});
    server.loseAnswers(2, 'reports');
    server.issue(1, NOOP);
    await server.when(() => reportsSent('1:1:end').length === 3);
    expect(handledIds()).toEqual(['1:1:end']);
  });

  it('a claim without an answer is repeated with its claim id', async () => {
    await start({});
    server.loseAnswers(1, 'grants');
    server.issue(1, NOOP);
    await server.when(() => server.handled.length === 1);
    const claims = server.calls.flatMap((call) => (call.claim == null ? [] : [call.claim.claim_id]));
    expect(claims.length).toBeGreaterThan(new Set(claims).size);
    expect(handledIds()).toEqual(['1:1:end']);
  });

  it('a server that is busy gets the same reports later', async () => {
    await start({});
    let refusals = 0;
    server.refuse((body) => {
      if ((body.reports?.length ?? 0) === 0 || refusals === 3) return null;
      refusals += 1;
      return { status: 503, body: { detail: { code: 'db_unavailable', message: 'away' }, code: 'db_unavailable' } };
    });
    server.issue(1, NOOP);
    await server.when(() => server.handled.length === 1);
    expect(refusals).toBe(3);
  });

  it('a server that has forgotten the worker gets a new registration and everything that is ready', async () => {
    const { tool, open } = held();
    await start({ tools: [tool] });
    server.issue(1, { kind: 'shell', command: 'x' });
    await expect.poll(() => open.length).toBe(1);
    server.forgetEverybody();
    open[0]?.finish();
    await server.when(() => server.handled.length === 1);
    expect(server.registrations.length).toBeGreaterThan(1);
    expect(server.registrations[1]?.['instance']).toBe(server.registrations[0]?.['instance']);
  });

  it('a deferred report comes again, others are not held up by it', async () => {
    await start({});
    let deferrals = 0;
    server.verdict((report) => {
      if (report.command_id !== 1 || deferrals === 2) return null;
      deferrals += 1;
      return 'deferred';
    });
    server.issue(1, NOOP);
    server.issue(2, NOOP);
    await server.when(() => server.handled.length === 2);
    expect(handledIds()).toEqual(['2:1:end', '1:1:end']);
  });

  it.each(['stale', 'late', 'unknown'] as const)('a report that is %s is forgotten', async (result) => {
    await start({});
    server.verdict((report) => (report.command_id === 1 ? result : null));
    server.issue(1, NOOP);
    await server.when(() => server.handled.length === 1);
    server.issue(2, NOOP);
    await server.when(() => server.handled.length === 2);
    expect(reportsSent('1:1:end')).toHaveLength(1);
  });

  it('an invalid report is replaced by a failure of its command', async () => {
    await start({});
    server.verdict((report) => (report.outcome === 'ok' ? 'invalid' : null));
    server.issue(1, NOOP);
    await server.when(() => server.handled.length === 1);
    expect(server.handled[0]).toMatchObject({ outcome: 'error', command_id: 1, error: { code: 'REPORT_REFUSED' } });
  });

  it('of a batch the server cannot read only the culprit is replaced', async () => {
    await start({});
    server.refuse((body) => {
      const culprit = body.reports?.some((report) => report.command_id === 2 && report.outcome === 'ok');
      return culprit ? { status: 422, body: { detail: 'body.reports: no', code: 'validation_error' } } : null;
    });
    for (const id of [1, 2, 3]) server.issue(id, NOOP);
    await server.when(() => server.handled.length === 3);
    const outcomes = new Map(server.handled.map((report) => [report.command_id, report.outcome]));
    expect(outcomes).toEqual(
      new Map([
        [1, 'ok'],
        [2, 'error'],
        [3, 'ok'],
      ]),
    );
  });
});

describe('orders', () => {
  it('to stop end the tool, and nothing is reported', async () => {
    const { tool, open } = held();
    await start({ tools: [tool] });
    server.issue(1, { kind: 'shell', command: 'x' });
    await expect.poll(() => open.length).toBe(1);
    server.stop({ command_id: 1, attempt: 1, reason: 'execution_cancelled' });
    await expect.poll(() => open[0]?.stopped).toBe(true);
    server.issue(2, NOOP);
    await server.when(() => server.handled.length === 1);
    expect(handledIds()).toEqual(['2:1:end']);
  });

  it('for another attempt are not for this one', async () => {
    const { tool, open } = held();
    await start({ tools: [tool] });
    server.issue(1, { kind: 'shell', command: 'x' });
    await expect.poll(() => open.length).toBe(1);
    server.stop({ command_id: 1, attempt: 2, reason: 'stale' });
    const calls = server.calls.length;
    await server.when(() => server.calls.length > calls + 2);
    expect(open[0]?.stopped).toBe(false);
    open[0]?.finish();
    await server.when(() => server.handled.length === 1);
  });

  it('a newer attempt of a held command replaces the older one', async () => {
    const { tool, open } = held();
    await start({ tools: [tool] });
    server.issue(1, { kind: 'shell', command: 'x' });
    await expect.poll(() => open.length).toBe(1);
    server.issue(1, { kind: 'shell', command: 'x' }, 2);
    await expect.poll(() => open.length).toBe(2);
    expect(open[0]?.stopped).toBe(true);
    open[1]?.finish();
    await server.when(() => server.handled.length === 1);
    expect(handledIds()).toEqual(['1:2:end']);
  });
});

describe('stopping', () => {
  it('lets what runs end, reports it as draining, and leaves', async () => {
    const { tool, open } = held();
    await start({ tools: [tool] });
    server.issue(1, { kind: 'shell', command: 'x' });
    await expect.poll(() => open.length).toBe(1);
    const stopping = worker.stop();
    await server.when(() => server.calls.at(-1)?.status === 'draining');
    server.issue(2, NOOP);
    open[0]?.finish();
    await stopping;
    expect(handledIds()).toEqual(['1:1:end']);
    expect(server.gone).toEqual(['worker-7']);
  });

  it('ends what takes longer than the drain, and leaves it to others', async () => {
    const { tool, open } = held();
    await start({ tools: [tool], env: { SVC_WORKER_DRAIN_SECONDS: '0.05' } });
    server.issue(1, { kind: 'shell', command: 'x' });
    await expect.poll(() => open.length).toBe(1);
    await worker.stop();
    expect(open[0]?.stopped).toBe(true);
    expect(handledIds()).toEqual([]);
    expect(server.gone).toEqual(['worker-7']);
  });

  it('twice is once', async () => {
    await start({});
    await Promise.all([worker.stop(), worker.stop()]);
    expect(server.gone).toEqual(['worker-7']);
  });
});

describe('a server that answers at once', () => {
  const said: string[] = [];
  const say = (sentence: string): void => void said.push(sentence);
  const log = { info: say, warn: say, error: say };
  const empty: ExchangeAnswer = {
    status: 'ok',
    server_time: '',
    reports: [],
    commands: [],
    stop: [],
    queue: { pending: 0 },
  };

  function loopOver(exchange: (body: ExchangeBody) => Promise<ExchangeAnswer>, run: WorkOptions['run']): WorkerLoop {
    return new WorkerLoop({
      client: {
        exchange,
        workerRegister: async () => ({ name: 'w', runtime_id: 1 }) as never,
        workerDeregister: async () => ({ released: 0 }) as never,
      },
      registration: { name: 'w', instance: 'i' } as never,
      concurrency: 1,
      heartbeatMs: 2_000,
      drainMs: 1_000,
      run,
      log,
      now: () => performance.now(),
    });
  }

  it('and empty, as one that drains does, is not asked without end', async () => {
    let calls = 0;
    const loop = loopOver(
      async () => {
        calls += 1;
        return empty;
      },
      () => Promise.reject(new Error('nothing is given')),
    );
    loop.start();
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(calls).toBeGreaterThan(1);
    expect(calls).toBeLessThan(10);
    await loop.stop();
  });

  it('again, after it was away, is told less often and once that it is back', async () => {
    said.length = 0;
    let polls = 0;
    const loop = loopOver(
      async ({ claim }) => {
        if (claim != null && ++polls <= 3) throw new Error('away');
        return empty;
      },
      () => Promise.reject(new Error('nothing is given')),
    );
    loop.start();
    await expect.poll(() => said, { timeout: 5_000 }).toContain('The server takes exchanges again.');
    await loop.stop();
    expect(said.filter((sentence) => sentence.includes('exchange'))).toEqual([
      'The server did not take an exchange; it is sent again.',
      'The server did not take an exchange; it is sent again.',
      'The server takes exchanges again.',
    ]);
  });

  it('with one command after the other leaves everybody else their turn', async () => {
    let calls = 0;
    let isOver = false;
    const loop = loopOver(
      async ({ reports, claim }) => {
        calls += 1;
        const done = (reports ?? []).map(
          ({ report_id, command_id, attempt }): ReportAnswer => ({
            report_id,
            command_id: Number(command_id),
            attempt,
            result: 'accepted',
            event_ids: [],
            commands_generated: 0,
            execution_status: null,
            error: null,
          }),
        );
        const next = { command_id: calls, attempt: 1, execution_id: 1, step: 's' } as Command;
        return { ...empty, reports: done, commands: claim == null || isOver || calls > 100_000 ? [] : [next] };
      },
      async () => ({ outcome: 'ok' }),
    );
    loop.start();
    await new Promise((resolve) => setTimeout(resolve, 20));
    isOver = true;
    expect(calls).toBeGreaterThan(32);
    expect(calls).toBeLessThan(100_000);
    await loop.stop();
  });
});
