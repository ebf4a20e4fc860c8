/** A worker in the server's process hears what one across the network hears. */
import { describe, expect, test } from 'vitest';
import { DomainError } from '../../actors/errors.ts';
import { UnavailableError } from '../../actors/ports.ts';
import type { ExchangeRequest } from '../../actors/services.ts';
import { Transport } from '../../src/client/transport.ts';
import { createExchangeLine } from '../../src/host/exchange-line.ts';
import type { Line, LineAnswer } from '../../src/wire/line.ts';
import { fakeServices } from './fake-services.ts';
import { ask, CONFIG, hostOptions, raw, testHost } from './test-host.ts';

const PATH = '/api/worker/exchange';
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
const GOOD = {
  worker_id: 'w',
  holding: [{ command_id: 41012, attempt: 1 }],
  reports: [{ report_id: 'r1', command_id: 41012, attempt: 1, outcome: 'ok', data: { text: 'é\u2028"\\' } }],
  claim: { claim_id: 'c-1', max: 4 },
};

function lineOver(
  exchange: (request: ExchangeRequest) => Promise<unknown>,
  change: Partial<Parameters<typeof createExchangeLine>[1]> = {},
) {
  const services = fakeServices({ commands: { exchange: exchange as never } });
  const { log, clock, lifecycle, lines, stop } = hostOptions();
  const { stopping } = lifecycle;
  const line = createExchangeLine(services, { ...CONFIG, isTraced: false, log, clock, stopping, ...change });
  if (line === null) throw new Error('there is no line');
  return { line, services, lines, stop };
}

const NEVER = new AbortController().signal;

async function posted(line: Line, text: string, signal = NEVER): Promise<LineAnswer> {
  const answer = line.post(text, signal);
  if (answer === null) throw new Error('left to the network');
  return await answer;
}

function withoutRequestId(json: object): object {
  return { ...json, request_id: undefined, detail: { ...Object(Reflect.get(json, 'detail')), request_id: undefined } };
}

describe('the same as over HTTP', () => {
  const answers = async () => ({ reports: [], commands: [], stop: [], pending: 3 });
  const throwing = (error: Error) => () => Promise.reject(error);

  test.each([
    ['a call with everything', JSON.stringify(GOOD), answers],
    ['a malformed report among good ones', JSON.stringify({ ...GOOD, reports: [{}, 5, ...GOOD.reports] }), answers],
    ['an empty text', '', answers],
    ['no JSON', '{"worker_id":', answers],
    ['no object', '[1]', answers],
    ['no worker', '{}', answers],
    ['unknown words and wrong types', '{"worker_id":"w","status":"gone","claim":{"claim_id":7,"max":0}}', answers],
    ['U+0000', '{"worker_id":"w","reports":[{"report_id":"a\\u0000"}]}', answers],
    ['a lone surrogate', '{"worker_id":"w","reports":[{"data":"\\ud800"}]}', answers],
    ['a key of the prototype', '{"worker_id":"w","reports":[{"__proto__":{"a":1}}]}', answers],
    ['too deep', `{"worker_id":"w","reports":[${nested(70)}]}`, answers],
    [
      'an integer written otherwise',
      '{"worker_id":"w","holding":[{"command_id":5,"attempt":1e0},{"command_id":7.0,"attempt":1}]}',
      answers,
    ],
    ['an unknown worker', JSON.stringify(GOOD), throwing(new DomainError('unknown_worker', 'no', { name: 'w' }))],
    ['a restarted worker', JSON.stringify(GOOD), throwing(new DomainError('worker_restarted', 'no'))],
    ['no database', JSON.stringify(GOOD), throwing(new UnavailableError())],
    ['a mistake of ours', JSON.stringify(GOOD), throwing(new Error('secret of the inside'))],
  ])('%s', async (_name, text, exchange) => {
    const { line, services, lines } = lineOver(exchange);
    const host = testHost(services);
    const over = await ask(host.app, 'POST', PATH, raw(text));
    const direct = await posted(line, text);
    expect(direct.status).toBe(over.status);
    expect(direct.retryAfter).toBe(over.headers['retry-after'] ?? null);
    expect(withoutRequestId(JSON.parse(direct.text))).toEqual(withoutRequestId(over.json));
    expect(direct.text).not.toContain('secret of the inside');
    const told = (all: typeof lines) =>
      all.filter(({ level }) => level !== 'debug').map(({ level, message }) => `${level} ${message}`);
    expect(told(lines)).toEqual(told(host.lines));
  });

  test('the services are asked the same', async () => {
    const asked: ExchangeRequest[] = [];
    const { line, services } = lineOver(async (request) => {
      asked.push(request);
      return await answers();
    });
    await ask(testHost(services).app, 'POST', PATH, raw(JSON.stringify(GOOD)));
    await posted(line, JSON.stringify(GOOD));
    expect(asked).toHaveLength(2);
    expect({ ...asked[1], claim: { ...asked[1]?.claim, signal: null } }).toEqual({
      ...asked[0],
      claim: { ...asked[0]?.claim, signal: null },
    });
  });
});

test.each([{ authMode: 'enforce' }, { isTraced: true }] as const)('there is none with %o', (change) => {
  expect(() => lineOver(() => Promise.reject(new Error('not asked')), change)).toThrow('there is no line');
});

describe('what it leaves to the network', () => {
  const never = () => Promise.reject(new Error('not asked'));

  test('a large body', () => {
    const body = JSON.stringify({ ...GOOD, reports: [{ ...GOOD.reports[0], data: 'x'.repeat(70_000) }] });
    expect(lineOver(never).line.post(body, NEVER)).toBeNull();
  });

  test('one that the limit for bodies may refuse', () => {
    const { line } = lineOver(never, { bodyLimitBytes: 1024 });
    const body = JSON.stringify({ ...GOOD, reports: [{ ...GOOD.reports[0], data: 'é'.repeat(600) }] });
    expect(Buffer.byteLength(body)).toBeGreaterThan(1024);
    expect(line.post(body, NEVER)).toBeNull();
  });
});

describe('a call that waits', () => {
  const POLL = JSON.stringify({ worker_id: 'w', claim: { claim_id: 'c-1', max: 1, wait_ms: 60_000 } });
  const untilEnded = async ({ claim }: ExchangeRequest) => {
    await new Promise((resolve) => {
      if (claim?.signal.aborted === true) resolve(null);
      claim?.signal.addEventListener('abort', resolve);
    });
    return { reports: [], commands: [], stop: [], pending: 0 };
  };

  test('ends when the process stops, and one that begins then is left to the network', async () => {
    const { line, stop } = lineOver(untilEnded);
    const answer = posted(line, POLL);
    stop.abort();
    expect((await answer).status).toBe(200);
    expect(line.post(POLL, NEVER)).toBeNull();
  });

  test('ends when the caller gives up, also one who has', async () => {
    const { line } = lineOver(untilEnded);
    const caller = new AbortController();
    const answer = posted(line, POLL, caller.signal);
    caller.abort();
    expect((await answer).status).toBe(200);
    expect((await posted(line, POLL, caller.signal)).status).toBe(200);
  });
});

describe('the client', () => {
  const call = { method: 'POST', path: PATH, body: GOOD } as const;
  const transportOver = (line: Line) => new Transport({ serverUrl: 'http://127.0.0.1:1', line });

  test('shares nothing with the server', async () => {
    const given = { status: 'ok', list: [1] };
    const line: Line = {
      path: PATH,
      post: async () => ({ status: 200, retryAfter: null, text: JSON.stringify(given) }),
    };
    const first = await transportOver(line).send(call);
    expect(first).toEqual(given);
    expect(first).not.toBe(given);
  });

  test('hears refusals as over the network', async () => {
    const text = JSON.stringify({ detail: 'no', code: 'db_unavailable' });
    const line: Line = { path: PATH, post: async () => ({ status: 503, retryAfter: '2', text }) };
    await expect(transportOver(line).send(call)).rejects.toMatchObject({
      status: 503,
      code: 'db_unavailable',
      retryAfterSeconds: 2,
    });
  });

  describe('is free although nobody answers, and the other side hears of it', () => {
    function silent() {
      const waiting: AbortSignal[] = [];
      const post: Line['post'] = (_body, signal) => {
        waiting.push(signal);
        return new Promise(() => {});
      };
      return { waiting, transport: transportOver({ path: PATH, post }) };
    }

    test('when it gives up', async () => {
      const { waiting, transport } = silent();
      const caller = new AbortController();
      const answer = transport.send({ ...call, signal: caller.signal });
      caller.abort(new Error('enough'));
      await expect(answer).rejects.toThrow('enough');
      expect(waiting[0]?.aborted).toBe(true);
    });

    test('when the time of the call is over', async () => {
      const { waiting, transport } = silent();
      const answer = transport.send({ ...call, timeoutMs: 30 });
      await expect(answer).rejects.toMatchObject({
        name: 'TransportError',
        cause: { message: 'no answer within 30 ms' },
      });
      expect(waiting[0]?.aborted).toBe(true);
    });

    test('when the client is closed, before and after', async () => {
      const { waiting, transport } = silent();
      const answer = transport.send(call);
      const heard = expect(answer).rejects.toMatchObject({ name: 'TransportError' });
      await transport.close();
      await heard;
      await expect(transport.send(call)).rejects.toMatchObject({ name: 'TransportError' });
      expect(waiting.map((signal) => signal.aborted)).toEqual([true, true]);
    });
  });

  test('leaves nothing behind on the signal of its caller', async () => {
    const line: Line = { path: PATH, post: async () => ({ status: 200, retryAfter: null, text: '{}' }) };
    const transport = transportOver(line);
    const caller = new AbortController();
    let listeners = 0;
    const { signal } = caller;
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
    signal.addEventListener = (...given: Parameters<typeof add>) => {
      listeners += 1;
      add(...given);
    };
    signal.removeEventListener = (...given: Parameters<typeof remove>) => {
      listeners -= 1;
      remove(...given);
    };
    for (let index = 0; index < 20; index += 1) await transport.send({ ...call, signal });
    expect(listeners).toBe(0);
  });

  test('calls everything else, and what the line leaves, over the network', async () => {
    const line: Line = { path: PATH, post: () => null };
    const transport = transportOver(line);
    for (const path of [PATH, '/api/worker/pool/register']) {
      await expect(transport.send({ ...call, path })).rejects.toThrow('the server cannot be reached');
    }
    await transport.close();
  });
});
