/**
 * The laws of api 3.6, checked on demand: most by statements over rows, and the one that rows cannot answer here: a sample of
 * executions is folded from their whole log and compared with what their rows say.
 */
import { isoOf } from '../machines/command/instant.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import { replayExecution } from '../machines/replay.ts';
import type { Clock, Meter, Store, StoredExecution } from './ports.ts';

export interface Offenders {
  readonly count: number;
  /** A few of them: execution ids, cache keys or names, as text. */
  readonly sample: readonly string[];
}

export interface InvariantStore {
  names(): readonly string[];
  check(name: string): Promise<Offenders>;
  /** Executions worth folding: some that run and the newest. */
  newest(limit: number): Promise<readonly number[]>;
}

export interface Check extends Offenders {
  readonly name: string;
  readonly ok: boolean;
}

export interface InvariantReport {
  readonly status: 'ok' | 'violated';
  readonly checkedAt: string;
  readonly checks: readonly Check[];
}

export interface InvariantsParts {
  readonly store: InvariantStore;
  readonly logs: Pick<Store, 'load' | 'events'>;
  readonly clock: Clock;
  readonly meter: Meter;
}

const FOLDED = 20;
const EVENTS_MAX = 20_000;
const SAMPLE = 10;

export async function checkInvariants({ store, logs, clock, meter }: InvariantsParts): Promise<InvariantReport> {
  const checks: Check[] = [];
  for (const name of store.names()) {
    const { count, sample } = await store.check(name);
    const further = name === 'projection' ? await unlikeTheirLog(store, logs) : [];
    const all = [...new Set([...sample, ...further])];
    const total = count + further.filter((id) => !sample.includes(id)).length;
    if (total > 0) meter.count('svc_engine_assert_total', { law: name }, total);
    checks.push({ name, ok: total === 0, count: total, sample: all.slice(0, SAMPLE) });
  }
  const status = checks.every((check) => check.ok) ? 'ok' : 'violated';
  return { status, checkedAt: isoOf(clock.now()), checks };
}

async function unlikeTheirLog(store: InvariantStore, logs: InvariantsParts['logs']): Promise<readonly string[]> {
  const found: string[] = [];
  for (const executionId of await store.newest(FOLDED)) {
    const stored = (await logs.load([executionId])).get(executionId);
    if (stored === undefined || stored.row.lastEventId > EVENTS_MAX) continue;
    if (!(await isLikeItsLog(stored, logs))) found.push(String(executionId));
  }
  return found;
}

async function isLikeItsLog({ row, openCommands }: StoredExecution, logs: InvariantsParts['logs']): Promise<boolean> {
  const numbers = Array.from({ length: row.handledThrough }, (_, index) => index + 1);
  const events = await logs.events(row.executionId, numbers);
  const state = replayExecution(events.filter((event) => event.causeId <= row.handledThrough));
  const isRunning = state.snapshot.status !== 'done';
  if (isRunning !== (row.status === 'running')) return false;
  // What ends a run from outside closes rows that its chart no longer looks at.
  if (!isRunning) return openCommands.length === 0;
  const { open } = runOf(state);
  const folded = Object.keys(open).sort();
  const stored = openCommands.map((command) => String(command.commandId)).sort();
  return folded.length === stored.length && folded.every((id, index) => id === stored[index]);
}
