/**
 * Recorded logs and what they folded to when they were recorded: `node test/reliability/golden-logs.ts` writes the corpus
 * anew. A log in it is never changed afterwards, only added to: what an earlier version has written must fold to the
 * same for ever, or the version of the machine has to be raised.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { LogEvent } from '../../machines/events.ts';
import { runOf } from '../../machines/execution/take-turn.ts';
import type { Json } from '../../machines/json.ts';
import { replayExecution } from '../../machines/replay.ts';
import { randomStory } from '../support/random-story.ts';

export interface GoldenLog {
  readonly events: readonly LogEvent[];
  readonly value: Json;
  readonly run: Json;
}

const FILE = new URL('./golden-logs.json.gz', import.meta.url);
const COUNT = 30;
const CHOICES_MAX = 24;

export function readGoldenLogs(): readonly GoldenLog[] {
  // Written below, and never by hand.
  return JSON.parse(gunzipSync(readFileSync(FILE)).toString('utf8')) as readonly GoldenLog[];
}

/** What a log folds to, as JSON keeps it. */
export function foldOf(events: readonly LogEvent[]): Pick<GoldenLog, 'value' | 'run'> {
  const state = replayExecution(events);
  // A chart's value and a Run are JSON.
  return JSON.parse(JSON.stringify({ value: state.snapshot.value, run: runOf(state) })) as Pick<
    GoldenLog,
    'value' | 'run'
  >;
}

function record(): void {
  const logs = Array.from({ length: COUNT }, (_, index) => {
    const choices = Array.from(
      { length: 4 + ((index * 7) % CHOICES_MAX) },
      (_, at) => (index * 7_919 + at * 104_729) % 997,
    );
    const { log } = randomStory(choices);
    return { events: log, ...foldOf(log) };
  });
  writeFileSync(FILE, gzipSync(JSON.stringify(logs)));
}

if (import.meta.main) record();
