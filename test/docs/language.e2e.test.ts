/** Every example of the language pages does what the comments at its top say, on a real server with a real worker. */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { parsePlaybook } from '../../machines/playbook/parse.ts';
import { startWorkerProcess } from '../../src/cli/worker-process.ts';
import { CallboardClient } from '../../src/client/client.ts';
import { readConfig } from '../../src/config.ts';
import { silentLog } from '../../src/log.ts';
import { startServer } from '../../src/server.ts';
import { startTestPostgres } from '../support/postgres.ts';

const PAGES = new URL('../../docs/language/', import.meta.url);

interface Example {
  readonly page: string;
  readonly line: number;
  readonly text: string;
  readonly inputs: JsonMap;
  readonly result: unknown;
  readonly status: string;
  readonly error: string | null;
  readonly skipped: string | null;
  readonly entered: { readonly step: string; readonly count: number } | null;
}

function examplesOf(page: string): readonly Example[] {
  const source = readFileSync(new URL(page, PAGES), 'utf8');
  return [...source.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map((match) => {
    const text = match[1] ?? '';
    const note = (name: string): string | null => new RegExp(`^# ${name}: (.*)$`, 'm').exec(text)?.[1] ?? null;
    const entered = /^# entered (\S+): (\d+)$/m.exec(text);
    return {
      page,
      line: source.slice(0, match.index).split('\n').length,
      text,
      inputs: JSON.parse(note('inputs') ?? '{}'),
      result: JSON.parse(note('result') ?? 'null'),
      status: note('status') ?? 'completed',
      error: note('error'),
      skipped: note('skipped'),
      entered: entered === null ? null : { step: entered[1] ?? '', count: Number(entered[2]) },
    };
  });
}

const pages = readdirSync(PAGES).filter((name) => name.endsWith('.md'));
const examples = pages.flatMap(examplesOf);

let client: CallboardClient;
const closing: (() => Promise<void>)[] = [];

beforeAll(async () => {
  const database = await startTestPostgres();
  closing.push(() => database.stop());
  const folder = await mkdtemp(join(tmpdir(), 'callboard-docs-'));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  const config = { ...readConfig({}), databaseUrl: database.url, dataDir: folder, port: 0 };
  const server = await startServer(config, { log: silentLog });
  closing.push(() => server.stop());
  const worker = await startWorkerProcess(
    { ...config, worker: { ...config.worker, serverUrl: server.url } },
    silentLog,
  );
  closing.push(() => worker.stop());
  client = new CallboardClient({ serverUrl: server.url, token: null });
  closing.push(() => client.close());
});

afterAll(async () => {
  for (const close of closing.toReversed()) await close();
});

describe('the language pages', () => {
  test('have an example on every page but the two that need outside parties', () => {
    const without = pages.filter((page) => examplesOf(page).length === 0);
    expect(without).toEqual(['credentials.md']);
  });

  test.each(examples.map((each) => [`${each.page}:${each.line}`, each] as const))(
    '%s does what it says',
    async (_where, example) => {
      const parsed = parsePlaybook(example.text);
      expect(parsed.ok ? parsed.warnings : parsed.errors).toEqual([]);
      if (!parsed.ok) return;
      await client.register(example.text, {});
      const started = await client.execute({ path: parsed.playbook.path, workload: example.inputs, wait_ms: 20_000 });
      const execution = await client.execution(started.execution_id);
      expect({ status: execution.status, result: execution.result }).toEqual({
        status: example.status,
        result: example.result,
      });
      if (example.error !== null) expect(execution.error).toContain(example.error);
      const { events } = await client.events(started.execution_id, {});
      if (example.skipped !== null) {
        expect(events.filter((event) => event.event_type === 'step.skipped').map((event) => event.node_name)).toEqual([
          example.skipped,
        ]);
      }
      const { entered } = example;
      if (entered !== null) {
        expect(
          events.filter((event) => event.event_type === 'step.enter' && event.node_name === entered.step),
        ).toHaveLength(entered.count);
      }
    },
  );
});
