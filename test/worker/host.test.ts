/** What tools get from their worker while a command runs, and that it is hidden afterwards. */
import { describe, expect, it } from 'vitest';
import { ApiError, TransportError } from '../../src/client/errors.ts';
import { createArtifact } from '../../src/tools/artifact.ts';
import { guarded } from '../../src/tools/guard.ts';
import { createSecrets } from '../../src/tools/secrets.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { executeCommand, type WorkerClient } from '../../src/worker/execute.ts';
import { type CommandOptions, commandOf, executeDeps, never, ok, scripted } from './commands.ts';

const run = (tool: CommandOptions['tool'], tools: readonly Tool[], client: Partial<WorkerClient> = {}) =>
  executeCommand(commandOf({ tool }), executeDeps(tools.map(guarded), client), never);

const REF = 'callboard://execution/41007/result/export/5';
const notFound = () => Promise.reject(new ApiError(404, { code: 'not_found', detail: 'no' }, null));

describe('a secret', () => {
  it.each(['a-long-secret', 'tiny'])('%s is real in the pipeline and hidden in the report', async (secret) => {
    const tool = createSecrets({ managers: new Map(), environment: { SVC_SECRET_KEY: secret } });
    const { tool: http, calls } = scripted('http', [ok({ sent: true, echo: secret })]);
    const report = await run(
      [
        { name: 'read', label: 'read', kind: 'secrets', provider: 'env', set: { 'ctx.kept': '{{ output.value }}' } },
        { name: 'send', kind: 'http', url: 'http://x', headers: { 'x-key': '{{ read.value }}' } },
      ].map((task) => (task.kind === 'secrets' ? { ...task, name: 'KEY' } : task)),
      [tool, http],
    );
    expect(calls[0]?.fields['headers']).toEqual({ 'x-key': secret });
    expect(report).toMatchObject({ outcome: 'ok', ctx: { kept: '***' } });
    expect(JSON.stringify(report)).not.toContain(secret);
    expect(JSON.stringify(report)).toContain('***');
  });
});

describe('a stored result', () => {
  const artifact = [createArtifact()];
  const get = { kind: 'artifact', input: { result_ref: REF } };

  it('is fetched for an artifact task', async () => {
    const report = await run(get, artifact, { resolveResult: async () => ({ n: 1 }) });
    expect(report).toMatchObject({ outcome: 'ok', data: { n: 1 } });
  });

  it.each([
    [notFound, 'missing_reference'],
    [() => Promise.reject(new TransportError('gone')), 'connection'],
    [() => Promise.reject(new ApiError(500, null, null)), 'storage_access'],
  ] as const)('that cannot be read fails the try', async (resolveResult, kind) => {
    expect(await run(get, artifact, { resolveResult })).toMatchObject({ outcome: 'error', error: { kind } });
  });

  it('is put under the name of its task, by its command', async () => {
    const puts: unknown[] = [];
    const report = await run({ kind: 'artifact', action: 'put', input: { data: [1] } }, artifact, {
      putResult: async (executionId, request) => {
        puts.push([executionId, request]);
        return { ref: REF, store: 'kv', bytes: 3, sha256: 'ab', summary: {} };
      },
    });
    expect(report).toMatchObject({ outcome: 'ok', data: { ref: REF, store: 'kv', bytes: 3, sha256: 'ab' } });
    expect(puts).toMatchObject([
      [41_007, { name: 'fetch_task', data: [1], source_step: 'fetch', command_id: 41_012, attempt: 1 }],
    ]);
  });
});

describe('what else a tool may ask for', () => {
  const asking = (kind: string, ask: (call: Parameters<Tool['run']>[0]) => Promise<unknown>): Tool => ({
    kind,
    // The test's questions answer with JSON.
    run: async (call) => ok((await ask(call)) as never),
  });

  it('is a catalog document, or null where there is none', async () => {
    const tool = asking('mcp', ({ host }) => host.catalogDocument('mcp/k8s'));
    const entry = { catalog_id: 3, path: 'mcp/k8s', version: 1, kind: 'mcp', name: 'k8s', payload: { kind: 'Mcp' } };
    expect(await run({ kind: 'mcp' }, [tool], { catalogGet: async () => entry })).toMatchObject({
      data: { kind: 'Mcp' },
    });
    expect(await run({ kind: 'mcp' }, [tool], { catalogGet: notFound })).toMatchObject({ outcome: 'ok', data: null });
  });

  it('is a credential, whose secrets are hidden too', async () => {
    const tool = asking('transfer', async ({ host }) => (await host.credential('db'))?.data);
    const credential = async () => ({ name: 'db', type: 'postgres', data: { host: 'h', password: 'long-password' } });
    expect(await run({ kind: 'transfer' }, [tool], { credential })).toMatchObject({
      data: { host: 'h', password: '***' },
    });
    expect(await run({ kind: 'transfer' }, [tool], { credential: notFound })).toMatchObject({
      error: { kind: 'missing_reference', message: "Credential 'db' not found" },
    });
  });
});
