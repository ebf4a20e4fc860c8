/** The command as a process: which Node runs it, its exit codes, its signals, and what it prints about a server's answers. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const LAUNCHER = fileURLToPath(new URL('../../src/cli/callboard.mjs', import.meta.url));
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../examples/', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}

describe('the command line', () => {
  test('names its version and the Node it runs on', async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const ended = await callboard(['--version']);
    expect(ended).toMatchObject({ code: 0, err: '' });
    expect(ended.out).toMatch(new RegExp(`^callboard ${version} \\(node 2[4-9]`));
  });

  test.each([
    [['dance']],
    [[]],
    [['status']],
    [['status', 'x1']],
    [['run', 'missing.yaml']],
    [['validate', '--fast', 'x']],
  ])('%j is wrong use, exit code 2', async (argv) => {
    const ended = await callboard(argv);
    expect(ended.code).toBe(2);
    expect(ended.out + ended.err).toContain('usage: callboard');
  });

  test.each(['dev', 'run', 'validate', 'server', 'worker', 'register', 'list', 'status', 'events', 'cancel'])(
    '%s explains itself',
    async (name) => {
      const ended = await callboard([name, '--help']);
      expect(ended).toMatchObject({ code: 0, err: '' });
      expect(ended.out).toContain(`usage: callboard ${name}`);
    },
  );

  test('help of a command is its --help', async () => {
    expect(await callboard(['help', 'list'])).toEqual(await callboard(['list', '--help']));
    expect((await callboard(['help', 'lost'])).code).toBe(2);
  });

  test('bad settings are named together, exit code 78', async () => {
    const ended = await callboard(['server'], { SVC_PORT: 'x', SVC_BUS: 'y' });
    expect(ended.code).toBe(78);
    expect(ended.err).toContain('SVC_PORT must be');
    expect(ended.err).toContain('SVC_BUS must be');
  });

  test('a server that does not answer is named with a remedy, exit code 4', async () => {
    const ended = await callboard(['cancel', '7', '--server', 'http://127.0.0.1:1']);
    expect(ended.code).toBe(4);
    expect(ended.err).toContain('http://127.0.0.1:1');
    expect(ended.err).toContain('callboard dev');
  });

  test('a data directory that cannot be made is named with a remedy and no trace, exit code 4', async () => {
    const ended = await callboard(['dev'], { SVC_DATA_DIR: join(LAUNCHER, 'data'), SVC_PORT: '0' });
    expect(ended.code).toBe(4);
    expect(ended.err).toContain('set SVC_DATA_DIR');
    expect(ended.err).not.toContain('    at ');
  });

  test('a reader that has seen enough ends it without complaint', async () => {
    const child = spawn(process.execPath, [LAUNCHER, 'help'], { stdio: 'pipe' });
    child.stdout.destroy();
    expect(await end(child)).toMatchObject({ code: 0, err: '' });
  });

  test('the examples are valid', async () => {
    const ended = await callboard(['validate', ...exampleFiles()]);
    expect(ended).toMatchObject({ code: 0, out: '' });
  });

  test('every error of a playbook is told with its place, exit code 2', async () => {
    const ended = await callboard(['validate', join(ROOT, 'test/cli/broken.yaml')]);
    expect(ended.code).toBe(2);
    expect(ended.out).toMatch(/broken\.yaml:\d+:\d+ {2}error {2}.*tool_missing/);
    expect(ended.out).toMatch(/broken\.yaml:\d+:\d+ {2}error {2}.*next_target/);
    const told = JSON.parse((await callboard(['validate', '--json', join(ROOT, 'test/cli/broken.yaml')])).out);
    expect(told).toMatchObject([{ valid: false }]);
    const names = 'severity code message step task path line column end_line end_column'.split(' ');
    expect(Object.keys(told[0].diagnostics[0])).toEqual(names);
  });

  test('documents that are no playbooks are checked as what they are', async () => {
    const ended = await callboard(['validate', documentFile('server.yaml', TOOL_SERVER)]);
    expect(ended).toMatchObject({ code: 0, out: '' });
    expect(ended.err).toContain('is valid (mcp)');
    const nameless = await callboard(['validate', documentFile('nameless.yaml', 'kind: Mcp\n')]);
    expect(nameless.code).toBe(2);
    expect(nameless.out).toContain('metadata.name is required');
  });
});

describe('with a Node that is too old', () => {
  const old = oldNode();

  test.skipIf(old === null)('the installed one takes over', async () => {
    const ended = await callboard(['--version'], {}, old ?? '');
    expect(ended.out).toMatch(/\(node 2[4-9]/);
    expect((await callboard(['dance'], {}, old ?? '')).code).toBe(2);
  });

  test.skipIf(old === null)('and without one it names the platform and the remedy', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'callboard-alone-'));
    cpSync(LAUNCHER, join(folder, 'callboard.mjs'));
    const ended = await end(spawn(old ?? '', [join(folder, 'callboard.mjs'), '--version'], { stdio: 'pipe' }));
    expect(ended.code).toBe(1);
    expect(ended.err).toContain(`${process.platform}-${process.arch}`);
    expect(ended.err).toContain('npm ci');
  });
});

describe('against a server', () => {
  const asked: string[] = [];
  const sent: string[] = [];
  const tokens: string[] = [];
  let server: Server;
  let url = '';

  beforeAll(async () => {
    server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      tokens.push(`${request.url} ${request.headers.authorization}`);
      let said = '';
      request.on('data', (chunk) => (said += chunk));
      request.on('end', () => sent.push(said));
      const { status, body } = answerTo(request.url ?? '');
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  test('status prints the result, and its exit code is the outcome', async () => {
    const done = await callboard(['status', '41', '--server', url]);
    expect(done.code).toBe(0);
    expect(done.out).toContain('completed after 1.1s');
    expect(done.out).toContain('"hello"');
    const failed = await callboard(['status', '42'], { SVC_SERVER_URL: url });
    expect(failed.code).toBe(1);
    expect(failed.out).toContain('Failed steps: a');
  });

  test('an unknown execution is the words of the server, exit code 2', async () => {
    const ended = await callboard(['status', '99', '--server', url]);
    expect(ended).toMatchObject({ code: 2, out: '' });
    expect(ended.err).toContain('Execution 99 not found');
  });

  test('events prints one line each, oldest first', async () => {
    const ended = await callboard(['events', '41', '--server', url]);
    expect(ended.code).toBe(0);
    expect(ended.out.trimEnd().split('\n')).toHaveLength(2);
    expect(ended.out).toMatch(/1 .*execution\.started/);
  });

  test('register stores documents of any kind, an agent by its type, and tells them as JSON', async () => {
    const agent = documentFile('agent.yaml', AGENT);
    const files = [documentFile('server.yaml', TOOL_SERVER), agent];
    const ended = await callboard(['register', ...files, '--type', 'agent', '--json', '--server', url]);
    expect(ended).toMatchObject({ code: 0, err: '' });
    expect(JSON.parse(ended.out)).toMatchObject([
      { file: files[0], version: 3 },
      { file: agent, unchanged: false },
    ]);
    const bodies = sent.filter((each) => each.includes('resource_type')).map((each) => JSON.parse(each));
    expect(bodies).toMatchObject([{ content: TOOL_SERVER }, { content: AGENT, resource_type: 'agent' }]);
  });

  test('register takes the path from the command where the file has none', async () => {
    const file = documentFile('pathless.yaml', AGENT.replace(/metadata.*\n/, ''));
    expect((await callboard(['register', file, '--server', url])).code).toBe(2);
    const ended = await callboard(['register', file, '--path', 'demo/a', '--server', url]);
    expect(ended).toMatchObject({ code: 0, out: 'demo/a version 3\n' });
  });

  test('cancel tells what it did, as JSON too', async () => {
    expect(await callboard(['cancel', '41', '--server', url])).toMatchObject({
      code: 0,
      out: 'Cancelled 1 execution\n',
    });
    const told = JSON.parse((await callboard(['cancel', '41', '--json', '--server', url])).out);
    expect(told).toMatchObject({ status: 'cancelled', cancelled_executions: ['41'] });
  });

  test('the recovery helper sends the token of the shell, unless there is one for operators', async () => {
    const env = { SVC_TOKEN: 'cb_admin_mine' };
    await callboard(['doctor', 'reachability', '--server', url], env);
    expect(tokens).toContain('/api/health Bearer cb_admin_mine');
    await callboard(['doctor', 'reachability', '--server', url], { ...env, SVC_INTERNAL_TOKEN: 'inside' });
    expect(tokens).toContain('/api/health Bearer inside');
  });

  test('list asks for what was asked', async () => {
    const ended = await callboard(['list', '--status', 'failed,running', '--limit', '5', '--server', url]);
    expect(ended.code).toBe(0);
    expect(ended.out).toContain('demo/a');
    expect(asked.some((each) => each.includes('page_size=5') && each.includes('status=failed%2Crunning'))).toBe(true);
  });

  test.each([null, oldNode()].filter((node, index) => index === 0 || node !== null))(
    'a signal ends a watch cleanly (launched by %s)',
    async (node) => {
      const child = start(['events', '43', '--follow', '--server', url], {}, node ?? process.execPath);
      const ended = end(child);
      await new Promise<void>((resolve) => child.stdout?.once('data', () => resolve()));
      child.kill('SIGTERM');
      expect(await ended).toMatchObject({ code: 0, signal: null });
    },
  );

  test.skipIf(oldNode() === null)('when the launcher is killed, what it launched ends too', async () => {
    const child = start(['events', '43', '--follow', '--server', url], {}, oldNode() ?? '');
    await new Promise<void>((resolve) => child.stdout?.once('data', () => resolve()));
    // The pipe closes when nobody is left who could write to it.
    const closed = new Promise<void>((resolve) => child.stdout?.once('close', () => resolve()));
    child.kill('SIGKILL');
    await closed;
  });
});

const TOOL_SERVER = 'kind: Mcp\nmetadata: { name: k8s, path: mcp/k8s }\nspec: { url: "http://127.0.0.1:9/mcp" }\n';
const AGENT = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: a, path: demo/a, agent: true }
workflow:
  - step: start
    tool: { kind: noop }
`;

function documentFile(name: string, text: string): string {
  const file = join(mkdtempSync(join(tmpdir(), 'callboard-document-')), name);
  writeFileSync(file, text);
  return file;
}

function answerTo(path: string): { readonly status: number; readonly body: unknown } {
  const id = path.split('?')[0]?.split('/')[3];
  if (id === '99') {
    return { status: 404, body: { detail: 'Execution 99 not found', code: 'not_found', request_id: 'r-1' } };
  }
  if (path.endsWith('/register')) {
    const stored = { path: 'demo/a', version: 3, catalog_id: 7, kind: 'playbook', unchanged: false };
    return { status: 200, body: stored };
  }
  if (path.endsWith('/cancel')) {
    const message = 'Cancelled 1 execution';
    return { status: 200, body: { status: 'cancelled', execution_id: 41, cancelled_executions: ['41'], message } };
  }
  if (path.includes('/events')) {
    const running = id === '43';
    const since = Number(/since_event_id=(\d+)/.exec(path)?.[1] ?? 0);
    const rows = [row(1, 'execution.started'), ...(running ? [] : [row(2, 'playbook.completed')])];
    const events = rows.filter((each) => each.event_id > since);
    return {
      status: 200,
      body: { execution_id: 41, status: 'running', events, pagination: { page: 1, has_next: false } },
    };
  }
  if (id === undefined) return { status: 200, body: [execution(41, 'completed')] };
  return { status: 200, body: execution(Number(id), id === '42' ? 'failed' : 'completed') };
}

function row(eventId: number, type: string) {
  const at = '2026-11-20T10:15:02.113Z';
  return {
    execution_id: 41,
    event_id: eventId,
    event_type: type,
    node_id: 'demo/a',
    node_name: 'demo/a',
    status: 'running',
    created_at: at,
  };
}

function execution(id: number, status: string) {
  const at = '2026-11-20T10:15:02.113Z';
  const end = { start_time: at, end_time: at, duration_seconds: 1.1, duration_human: '1.1s' };
  const outcome = status === 'failed' ? { result: null, error: 'Failed steps: a' } : { result: 'hello', error: null };
  return { execution_id: id, path: 'demo/a', version: 1, status, progress: 100, ...end, ...outcome };
}

function callboard(argv: readonly string[], env: Record<string, string> = {}, node = process.execPath): Promise<Ended> {
  return end(start(argv, env, node));
}

function start(argv: readonly string[], env: Record<string, string>, node: string): ChildProcess {
  return spawn(node, [LAUNCHER, ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], NO_COLOR: '1', ...env },
  });
}

function end(child: ChildProcess): Promise<Ended> {
  let out = '';
  let err = '';
  child.stdout?.on('data', (chunk) => (out += chunk));
  child.stderr?.on('data', (chunk) => (err += chunk));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, out, err }));
  });
}

function exampleFiles(): readonly string[] {
  return ['hello', 'fan-out', 'loop', 'retry', 'errors', 'nested'].map((name) => join(EXAMPLES, `${name}.yaml`));
}

/** A Node below 24 on this machine, or null. */
function oldNode(): string | null {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  const found = folders.map((folder) => join(folder, 'node')).find((path) => existsSync(path));
  if (found === undefined) return null;
  const version = execFileSync(found, ['--version'], { encoding: 'utf8' });
  return Number(/^v(\d+)/.exec(version)?.[1] ?? 99) < 24 ? found : null;
}
