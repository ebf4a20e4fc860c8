/**
 * The paths of the charts, walked on a running server by HTTP: after every event the inspection API has to say the state
 * that the same word has in the model. Nothing of the server is reached but its addresses.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fromTransition } from 'xstate';
import { getShortestPaths } from 'xstate/graph';
import type { JsonMap } from '../../machines/json.ts';
import { type LanguageStack, startLanguageStack } from '../support/language-stack.ts';
import { every, step } from '../support/playbooks.ts';
import { given, type Story } from '../support/story.ts';
import { canHappen, type Letter, MODELS, type Model, pathsOf, walk } from './charts.ts';

let stack: LanguageStack;
/** Nobody serves this pool, so that commands wait for the hand of the test. */
const POOL = 'by-hand';

beforeAll(async () => {
  stack = await startLanguageStack();
}, 60_000);
afterAll(() => stack.close());

async function ask(method: string, path: string, body?: JsonMap): Promise<JsonMap> {
  const response = await fetch(`${stack.serverUrl}${path}`, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  const answer = (await response.json()) as JsonMap;
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

/** A list in the middle of a document is indented. */
const register = (workflow: readonly JsonMap[]) => stack.register(`  ${JSON.stringify(workflow)}`);

const stateAt = async (path: string) => (await ask('GET', path))['value'];

interface Run {
  readonly executionId: number;
  commandOf(step: string): Promise<number>;
}

async function start(path: string): Promise<Run> {
  const { execution_id } = await ask('POST', '/api/execute', { path, execution_pool: POOL });
  const executionId = Number(execution_id);
  const known = new Map<string, number>();
  return {
    executionId,
    async commandOf(name) {
      if (!known.has(name)) {
        const { commands } = await ask('GET', `/api/executions/${executionId}/commands`);
        for (const each of commands as unknown as { step: string; command_id: number }[])
          known.set(each.step, each.command_id);
      }
      const found = known.get(name);
      if (found === undefined) throw new Error(`step ${name} has no command`);
      return found;
    },
  };
}

const say = ({ executionId }: Run, type: string, stepName: string, more: JsonMap = {}) =>
  ask('POST', '/api/events', { execution_id: executionId, event_type: type, step: stepName, ...more });

async function settle(run: Run, name: string, isOk: boolean): Promise<void> {
  const command_id = await run.commandOf(name);
  const payload = isOk ? { command_id, result: 1 } : { command_id, error: { kind: 'k', code: 'E', message: 'broke' } };
  await say(run, isOk ? 'call.done' : 'call.error', name, { payload });
  await say(run, isOk ? 'command.completed' : 'command.failed', name, { payload: { command_id } });
}

// ---------------------------------------------------------------- executions

/** One word for the story and for the server. */
interface Deed {
  readonly name: string;
  tell(story: Story): void;
  doIt(run: Run): Promise<unknown>;
}

const isOpen = (story: Story, name: string) => story.openKeys.includes(name);
const DEEDS: readonly Deed[] = [
  ...['a', 'b'].flatMap((name): Deed[] => [
    {
      name: `${name} succeeds`,
      tell: (story) => isOpen(story, name) && story.ok(name, 1),
      doIt: (run) => settle(run, name, true),
    },
    {
      name: `${name} fails`,
      tell: (story) => isOpen(story, name) && story.fail(name),
      doIt: (run) => settle(run, name, false),
    },
  ]),
  {
    name: 'completed from outside',
    tell: (story) => story.tell({ type: 'playbook.completed', status: 'completed', nodeName: 'x' }),
    doIt: (run) => say(run, 'playbook.completed', 'x'),
  },
  {
    name: 'failed from outside',
    tell: (story) => story.tell({ type: 'playbook.failed', status: 'failed', nodeName: 'x' }),
    doIt: (run) => say(run, 'playbook.failed', 'x', { payload: { error: 'enough' } }),
  },
  {
    name: 'cancelled',
    tell: (story) => story.cancel(),
    doIt: (run) => ask('POST', `/api/executions/${run.executionId}/cancel`, { reason: 'enough' }),
  },
  {
    name: 'a note',
    tell: (story) => story.note({ type: 'note.taken', status: 'completed', nodeName: 'x' }),
    doIt: (run) => say(run, 'note.taken', 'x'),
  },
];

const ENDS: ReadonlySet<string> = new Set(['playbook.completed', 'playbook.failed', 'execution.cancelled']);
/** Runs at once. */
const LANES = 8;
const FORK = [step('go', every('a', 'b')), step('a'), step('b')];

/** Both branches are in a worker's hands: one that nobody has begun is not waited for when the other fails. */
function storyOf(word: readonly Deed[]): Story {
  const story = given(FORK).start().ok('go', 1).claim('a', 'b');
  for (const deed of word) deed.tell(story);
  return story;
}

test('an execution is where the model has it after every event of every path, legal or not', async () => {
  const byName = new Map(DEEDS.map((deed) => [deed.name, deed]));
  const logic = fromTransition(
    (word: readonly Deed[], { type }: { readonly type: string }) => [...word, byName.get(type) as Deed],
    [] as readonly Deed[],
  );
  const paths = getShortestPaths(logic, {
    events: DEEDS.map(({ name }) => ({ type: name })),
    serializeState: ({ context }) => {
      const story = storyOf(context);
      return `${story.value} ${story.openKeys.join()}` as never;
    },
  });
  const states = new Set(paths.map(({ state }) => storyOf(state.context).value));
  expect([...states].sort()).toEqual(['cancelled', 'completed', 'failed', 'running.failing', 'running.working']);

  const path = await register(FORK);
  const flat = (value: unknown) => JSON.stringify(value).replaceAll(/["{}]/g, '').replace(':', '.');
  // Every situation, and from each of them every deed: those that nothing can come of as well. Shorter words are among them.
  const words = paths.flatMap(({ state }) => DEEDS.map((last) => [...state.context, last]));
  const total = words.length;
  const visit = async (word: readonly Deed[]): Promise<void> => {
    const run = await start(path);
    const { executionId } = run;
    await settle(run, 'go', true);
    for (const name of ['a', 'b'])
      await ask('POST', `/api/commands/${await run.commandOf(name)}/claim`, { worker_id: 'ada' });
    for (const deed of word) await deed.doIt(run);
    const story = storyOf(word);
    const where = word.map(({ name }) => name).join(', ');
    expect(flat(await stateAt(`/api/executions/${executionId}/machine`)), where).toBe(story.value);
    // The past is still there, and the log has one end at most.
    expect(flat(await stateAt(`/api/executions/${executionId}/machine?at=1`))).toBe('running.working');
    const { events } = await ask('GET', `/api/executions/${executionId}/events?page_size=500`);
    const ends = (events as unknown as { event_type: string }[]).filter(({ event_type }) => ENDS.has(event_type));
    expect(ends.length, where).toBe(story.isEnded ? 1 : 0);
    visited += 1;
  };
  let visited = 0;
  const lane = async (): Promise<void> => {
    for (let word = words.shift(); word !== undefined; word = words.shift()) await visit(word);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  expect(visited).toBe(total);
}, 240_000);

test.each(['completed from outside', 'failed from outside', 'cancelled'])(
  'EV-10: what comes after a run has %s changes nothing, and each is counted once',
  async (ending) => {
    const run = await start(await register([step('only')]));
    const command_id = await run.commandOf('only');
    await DEEDS.find(({ name }) => name === ending)?.doIt(run);
    const at = `/api/executions/${run.executionId}/machine`;
    const { cursor: _, at: __, ...before } = await ask('GET', at);
    const types = ['call.done', 'call.error', 'command.started', 'command.completed', 'command.failed', 'step.exit'];
    for (const type of [...types, 'command.cancelled', 'note.taken', ...ENDS]) {
      const counted = await ignored();
      const isOfCommand = !ENDS.has(type) && type !== 'note.taken';
      const answer = await say(run, type, 'only', { payload: isOfCommand ? { command_id } : {} });
      expect(answer['late'] === true || answer['duplicate'] === true, type).toBe(true);
      expect((await ignored()) - counted, type).toBe(1);
      const { cursor: ___, at: ____, ...after } = await ask('GET', at);
      expect(after, type).toEqual(before);
    }
  },
  60_000,
);

/** Events that no chart took notice of, whatever the reason. */
async function ignored(): Promise<number> {
  const response = await fetch(`${stack.serverUrl}/metrics`);
  const lines = (await response.text()).split('\n');
  const ofName = (name: string) => Number(lines.find((line) => line.startsWith(`${name} `))?.split(' ')[1] ?? 0);
  const names = ['svc_events_late_total', 'svc_events_stale_total', 'svc_events_duplicate_total'];
  return names.reduce((sum, name) => sum + ofName(name), 0);
}

// ---------------------------------------------------------------- the smaller charts

const wordsOf = (model: Model, names: readonly string[]) => {
  const letters = names.map((name) => model.letters.find((each) => each.name === name) as Letter);
  // Each situation these letters lead to, and from there each of them once more.
  return pathsOf(model, 'shortest', letters).flatMap(({ word, snapshot }) =>
    letters
      .filter((letter) => canHappen(model, model.situation(snapshot), letter))
      .map((letter): readonly Letter[] => [...word, letter]),
  );
};

/** What only the chart refuses is refused by the API with a reason of its own, and changes as little. */
const orRefused = (work: Promise<unknown>) =>
  work.catch((error: unknown) => {
    if (!/: (404|409|422) /.test(String(error))) throw error;
  });

describe('by HTTP', () => {
  const command = MODELS['command'] as Model;
  const doings: Readonly<Record<string, (run: Run, commandId: number) => Promise<unknown>>> = {
    claimed: (_run, id) => ask('POST', `/api/commands/${id}/claim`, { worker_id: 'ada' }),
    started: (run, id) => say(run, 'command.started', 'only', { payload: { command_id: id } }),
    completed: (run, id) => say(run, 'command.completed', 'only', { payload: { command_id: id } }),
    failed: (run, id) => say(run, 'command.failed', 'only', { payload: { command_id: id } }),
    cancelled: (run) => ask('POST', `/api/executions/${run.executionId}/cancel`, { reason: 'enough' }),
  };

  test('a command is where its chart is after every event of every path', async () => {
    const path = await register([step('only')]);
    const words = wordsOf(command, Object.keys(doings));
    expect(words.length).toBeGreaterThan(20);
    for (const word of words) {
      const run = await start(path);
      const commandId = await run.commandOf('only');
      for (const [index, { name }] of word.entries()) {
        await orRefused(doings[name]?.(run, commandId) ?? Promise.resolve());
        const expected = walk(command, effective(word.slice(0, index + 1))).snapshot.value;
        const where = word.map((letter) => letter.name).join(', ');
        expect(await stateAt(`/api/commands/${commandId}/machine`), `${where} (${index + 1})`).toBe(expected);
      }
    }
  }, 120_000);

  /** The same worker claims a command it works on already: the answer is no, and nothing is recorded. */
  function effective(word: readonly Letter[]): readonly Letter[] {
    return word.filter(({ name }, index) => {
      if (name !== 'claimed') return true;
      return walk(command, effective(word.slice(0, index))).snapshot.value === 'PENDING';
    });
  }

  test('a keychain entry is where its chart is after every event of every path', async () => {
    const keychain = MODELS['keychain'] as Model;
    const path = await register([step('only')]);
    const { catalog_id } = await ask('GET', `/api/catalog/playbook/${path}`);
    const stored = (more: JsonMap) => ({ token_data: { token: 'x' }, credential_type: 'http', ...more });
    const renewing = { auto_renew: true, renew_config: { endpoint: 'https://example.com/token' } };
    const deeds: Readonly<Record<string, (at: string) => Promise<unknown>>> = {
      stored: (at) => ask('POST', at, stored({ ttl_seconds: 60 })),
      'stored, renews itself': (at) => ask('POST', at, stored({ ttl_seconds: 3_600, ...renewing })),
      'stored too late': (at) => ask('POST', at, stored({ expires_at: '2020-01-01T00:00:00Z' })),
      'read in time': (at) => ask('GET', at),
      removed: (at) => ask('DELETE', at),
    };
    for (const [number, word] of wordsOf(keychain, Object.keys(deeds)).entries()) {
      const address = `/api/keychain/${catalog_id}/entry-${number}`;
      let isKnown = false;
      for (const [index, { name }] of word.entries()) {
        await deeds[name]?.(address);
        isKnown ||= name.startsWith('stored');
        const expected = walk(keychain, word.slice(0, index + 1)).snapshot.value;
        const where = word.map((letter) => letter.name).join(', ');
        // Of an entry that never was there is nothing to be seen.
        if (isKnown) expect(await stateAt(`${address}/machine`), where).toBe(expected);
        else await expect(stateAt(`${address}/machine`)).rejects.toThrow('404');
      }
    }
  }, 120_000);

  test('a batch is only ever seen where its chart may be, and at last at its end', async () => {
    const batch = MODELS['batch'] as Model;
    const run = await start(await register([step('only')]));
    const { request_id } = await ask('POST', '/api/events/batch', {
      execution_id: run.executionId,
      events: [{ event_type: 'note.taken', step: 'only' }],
    });
    const seen: string[] = [];
    await expect
      .poll(
        async () => {
          const { value } = await ask('GET', `/api/events/batch/${request_id}/machine`);
          if (seen.at(-1) !== value) seen.push(String(value));
          return value;
        },
        { timeout: 30_000 },
      )
      .toBe('completed');
    for (const [index, state] of seen.entries()) {
      const reachable = pathsOf({ ...batch }, 'shortest').map(({ snapshot }) => snapshot.value);
      expect(reachable).toContain(state);
      expect(['accepted', 'processing', 'completed'].indexOf(state)).toBeGreaterThanOrEqual(index);
    }
    await expect(ask('GET', '/api/events/batch/999/machine')).rejects.toThrow('404');
  }, 60_000);
});
