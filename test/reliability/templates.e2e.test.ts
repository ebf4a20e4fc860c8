/** Templates in every field that takes them, in runs that a worker really does (catalogue H). */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type LanguageStack, startLanguageStack } from '../support/language-stack.ts';

let stack: LanguageStack;
let folder = '';
let site = '';
const asked: { readonly url: string; readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];

beforeAll(async () => {
  stack = await startLanguageStack();
  folder = await mkdtemp(join(tmpdir(), 'callboard-escape-'));
  site = await stack.site((request, response) => {
    let body = '';
    request.on('data', (part) => {
      body += String(part);
    });
    request.on('end', () => {
      asked.push({ url: request.url ?? '', headers: request.headers, body });
      response
        .setHeader('content-type', 'application/json')
        .end(
          request.url === '/polluted'
            ? '{"__proto__": {"polluted": true}}'
            : '{"constructor": {"polluted": true}, "hasOwnProperty": 1, "toString": 2, "n": 2}',
        );
    });
  });
});
afterAll(async () => {
  await stack.close();
  await rm(folder, { recursive: true, force: true });
});

const ESCAPE = "{{ range.constructor('globalThis.__escaped = 1')() }}";
const FIELDS: readonly (readonly [string, string])[] = [
  ['the url of http', `  - { step: start, tool: { kind: http, url: "SITE/${ESCAPE}" } }`],
  ['a header of http', `  - { step: start, tool: { kind: http, url: "SITE/", headers: { x-a: "${ESCAPE}" } } }`],
  [
    'the body of http',
    `  - { step: start, tool: { kind: http, method: POST, url: "SITE/", json: { a: "${ESCAPE}" } } }`,
  ],
  ['a command of shell', `  - { step: start, tool: { kind: shell, command: "echo ${ESCAPE}" } }`],
  [
    'the code of python',
    `  - { step: start, tool: { kind: python, args: { a: "${ESCAPE}" }, code: "def main(a): return a" } }`,
  ],
  [
    'a query of postgres',
    `  - { step: start, tool: { kind: postgres, query: "select '${ESCAPE.replaceAll("'", '')}'" } }`,
  ],
  ['the items of a loop', `  - { step: start, loop: { in: "${ESCAPE}", iterator: x }, tool: { kind: noop } }`],
  [
    'the guard of an arc',
    `  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: end, when: "${ESCAPE}" }] } }\n  - { step: end, tool: { kind: noop } }`,
  ],
  ['set', `  - { step: start, set: { ctx.a: "${ESCAPE}" }, tool: { kind: noop } }`],
];

describe('TP-01 a way out of a template', () => {
  test.each(FIELDS)('in %s fails the run or the registration, and runs nothing', async (_name, workflow) => {
    const before = asked.length;
    const ran = await stack.run(workflow.replaceAll('SITE', site)).catch((error: unknown) => error);
    if (ran instanceof Error) expect(ran.message).toMatch(/template|validation|expression|constructor/i);
    else expect(ran).toMatchObject({ status: 'failed' });
    expect(globalThis).not.toHaveProperty('__escaped');
    expect(asked).toHaveLength(before);
  });
});

describe('TP-03 template text inside data', () => {
  test('is printed as it is, in every tool and at every next step', async () => {
    const text = '{{ 7 * 7 }}{% for i in range(9) %}x{% endfor %}';
    const ran = await stack.run(
      `  - step: start
    tool: { kind: http, method: POST, url: "${site}/", headers: { x-data: "{{ workload.x }}" }, json: { a: "{{ workload.x }}" } }
    set: { ctx.kept: "{{ workload.x }}" }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: python, args: { a: "{{ ctx.kept }}" }, code: "def main(a): return {'a': a}" } }`,
      { x: text },
    );
    expect(ran.status, ran.error ?? '').toBe('completed');
    const last = asked.at(-1);
    expect([last?.headers['x-data'], JSON.parse(last?.body ?? '{}')]).toEqual([text, { a: text }]);
    expect(JSON.stringify(ran.result)).toContain(JSON.stringify(text).slice(1, -1));
    expect(JSON.stringify(ran.events)).not.toContain('"49');
  });

  test('cannot leave the argument it stands in', async () => {
    const canary = join(folder, 'canary');
    const ran = await stack.run(
      `  - { step: start, tool: { kind: python, args: { a: "{{ workload.x }}" }, code: "def main(a): return {'a': a}" } }`,
      { x: `'); open('${canary}', 'w'); ('` },
    );
    expect(ran.status, ran.error ?? '').toBe('completed');
    expect(existsSync(canary)).toBe(false);
  });
});

test('HT-10 a line break in a header of a request that a step makes is refused', async () => {
  const before = asked.length;
  const ran = await stack.run(
    `  - { step: start, tool: { kind: http, url: "${site}/", headers: { x-a: "{{ workload.x }}" } } }`,
    {
      x: 'a\r\nX-Evil: 1',
    },
  );
  const last = asked.slice(before);
  expect(ran.status === 'failed' || last.every(({ headers }) => headers['x-evil'] === undefined)).toBe(true);
  for (const { headers } of last) expect(headers['x-evil']).toBeUndefined();
});

describe('IN-05 what a tool answers', () => {
  test('is data, whatever its keys are called', async () => {
    const ran = await stack.run(
      `  - { step: start, tool: { kind: http, url: "${site}/" }, set: { ctx.n: "{{ output.data.toString }}" } }`,
    );
    expect(ran.status, ran.error ?? '').toBe('completed');
    expect(ran.result).toMatchObject({ data: { constructor: { polluted: true }, hasOwnProperty: 1 } });
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  test('fails the step when it is called __proto__', async () => {
    const ran = await stack.run(`  - { step: start, tool: { kind: http, url: "${site}/polluted" } }`);
    expect(ran).toMatchObject({ status: 'failed', error: expect.stringContaining('a key named __proto__') });
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

describe('TP-07 a name that is nothing', () => {
  // Undefined prints as nothing (language 8.7); what matters is that no name of the host is anything.
  test.each(['process', 'env', 'secrets', 'globalThis', 'require', 'this', 'module', 'workload.missing.deeper'])(
    '%s is undefined',
    async (name) => {
      const ran = await stack.run(
        `  - { step: start, tool: { kind: http, url: "${site}/{{ ${name} is defined }}-{{ ${name} }}-{{ ${name}.env.PATH }}" } }`,
      );
      expect(ran.status, ran.error ?? '').toBe('completed');
      expect(asked.at(-1)?.url).toBe('/False--');
    },
  );

  test('fails the step where it is an entry of the keychain', async () => {
    const ran = await stack
      .run(`  - { step: start, tool: { kind: http, url: "${site}/{{ keychain.nobody.token }}" } }`)
      .catch((error: unknown) => error);
    if (ran instanceof Error) expect(ran.message).toContain('keychain');
    else expect(ran).toMatchObject({ status: 'failed', error: expect.stringMatching(/keychain.*nobody/i) });
  });
});

test('TP-05 a template that would run for ever fails its step while others are served', async () => {
  const running = stack.run(
    '  - { step: start, tool: { kind: python, args: { a: "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}" }, code: "def main(a): return a" } }',
  );
  expect((await fetch(`${stack.serverUrl}/api/health`)).status).toBe(200);
  expect(await running).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(/more than \d+ (ms|steps|bytes)|TEMPLATE_LIMIT/),
  });
});

describe('TP-09 a whole root', () => {
  const secret = 'rooted-4f1c-secret';
  const root = `keychain: [{ name: k, kind: static, map: { token: ${secret}, list: [${secret}] } }]`;

  test('is not dumped', async () => {
    await expect(
      stack.run(`  - { step: start, tool: { kind: noop, result: "{{ keychain | dump }}" } }`, {}, root),
    ).rejects.toMatchObject({
      errors: [{ code: 'template_syntax', message: expect.stringContaining("unknown filter 'dump'") }],
    });
  });

  test('of secrets is masked in every shape it can be rendered in', async () => {
    const shapes = [
      'keychain',
      'keychain | tojson',
      'keychain.items()',
      'keychain.k',
      'keychain.k | urlencode',
      'keychain.k.list',
    ];
    const results = shapes.map((shape, index) => `r${index}: "{{ ${shape} }}"`).join(', ');
    const ran = await stack.run(
      `  - { step: start, tool: { kind: noop, result: { ${results}, text: "{{ keychain }}!" } }, next: { arcs: [{ step: end, set: { all: "{{ start }}" } }] } }
  - { step: end, tool: { kind: noop, result: "{{ [ctx, steps, workload, args, job] }}" } }`,
      {},
      root,
    );
    expect(ran.status, ran.error ?? '').toBe('completed');
    expect(ran.result).toMatchObject([
      { all: { r0: { k: { token: '***', list: ['***'] } }, r3: { token: '***' } } },
      {},
      {},
      {},
      {},
    ]);
    expect(JSON.stringify([ran.result, ran.events])).not.toContain(secret);
  });

  test('does not hold what belongs to the service', async () => {
    const roots = ['ctx', 'steps', 'workload', 'args', 'job', 'iter', 'results'].map(
      (name) => `"{{ ${name} | list }}"`,
    );
    const ran = await stack.run(`  - { step: start, tool: { kind: noop, result: [${roots}] } }`, { mine: 1 });
    expect(ran.result).toEqual([['mine'], [], ['mine'], ['mine'], ['uuid', 'execution_id', 'id'], [], []]);
  });
});
