/**
 * `callboard simulate`: what a playbook would do if its tools answered so and so. No server, no worker, no request; the
 * picture goes to stderr, the result to stdout.
 */
import * as v from 'valibot';
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { printable } from '../../log.ts';
import { simulatedToWire } from '../../simulate/answer.ts';
import { recordedLog } from '../../simulate/recorded-log.ts';
import { type Simulation, simulate } from '../../simulate/simulator.ts';
import type { Simulated, SimulationOptions } from '../../wire/simulate.ts';
import { simulationFields, toSimulation } from '../../wire/simulate.ts';
import { type Call, type Command, JSON_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { fileLibrary } from '../file-library.ts';
import { inputsOf } from '../inputs.ts';
import { durationText } from '../live-view.ts';
import { problemLine, problemsOf, readPlaybookFile } from '../playbook-file.ts';
import { writeTextFile } from '../text-file.ts';
import { shaped, yamlOfFile } from '../yaml-file.ts';

const script = v.strictObject(simulationFields);
const TRIES_SHOWN = 200;

export const command: Command = {
  usage: 'FILE [options]',
  description: `Runs a playbook dry: the engine is the real one, tools answer what the file of outcomes says, time is virtual.
Nothing is stored and nothing is called. Children are looked for in the playbook's folder.

The file of outcomes is a list of {step, task?, kind?, activation?, iteration?, try?, when?, path?, result | error,
duration_ms, worker_lost, times}, or a map with outcomes, workload, default_outcome, children, cancel_at_ms, seed,
start_time and limits. docs/simulation.md tells more.

Exit code: 0 completed, 1 failed, 2 wrong use or invalid playbook, 3 cancelled, 4 stopped at a limit.`,
  options: {
    outcomes: { type: 'string', value: 'FILE.yaml', help: 'what tools answer' },
    set: { type: 'string', multiple: true, value: 'KEY=VALUE', help: 'an input; JSON if it reads as JSON, else text' },
    input: { type: 'string', value: 'FILE.json', help: 'inputs as a JSON object; --set wins over them' },
    seed: { type: 'string', value: 'N', help: 'orders what ends at the same instant (1)' },
    'cancel-at': { type: 'string', value: 'MS', help: 'cancel the run after so much virtual time' },
    with: { type: 'string', multiple: true, value: 'FILE', help: 'a further playbook that may be called' },
    log: { type: 'string', value: 'FILE.json', help: 'write the whole log there, for callboard replay' },
    ...JSON_OPTION,
  },
  words: [1, 1],
  run: async (call) => {
    const [name = ''] = call.words;
    const file = await readPlaybookFile(name);
    for (const problem of problemsOf(file)) call.terminal.err(problemLine(name, problem, call.terminal));
    if (!file.parsed.ok) return EXIT.usage;
    const given = await optionsOf(call);
    const document = { content: file.text, path: null, version: 1, catalogId: null };
    const simulation = await simulate(toSimulation(document, given), fileLibrary(name, call.lists['with'] ?? []));
    const { log } = call.texts;
    if (log !== undefined) await writeTextFile(log, `${JSON.stringify(recordedLog(simulation, file.text), null, 1)}\n`);
    const told = simulatedToWire(simulation);
    if (call.flags['json']) call.terminal.out(`${JSON.stringify(told, null, 2)}\n`);
    else show(call, told, given);
    return codeOf(simulation.status);
  },
};

async function optionsOf(call: Call): Promise<SimulationOptions> {
  const file = call.texts['outcomes'];
  const said = file === undefined ? {} : scriptOf(await yamlOfFile(file), file);
  const seed = numberOption(call, 'seed', Number.MIN_SAFE_INTEGER);
  const cancelAt = numberOption(call, 'cancel-at', 0);
  return {
    ...said,
    workload: { ...said.workload, ...(await inputsOf(call)) },
    ...(seed === null ? {} : { seed }),
    ...(cancelAt === null ? {} : { cancel_at_ms: cancelAt }),
  };
}

function scriptOf(value: Json, file: string): SimulationOptions {
  const map: JsonMap = isMap(value) ? value : { outcomes: value };
  return shaped(script, map, file);
}

function numberOption(call: Call, name: string, least: number): number | null {
  const text = call.texts[name];
  if (text === undefined) return null;
  const number = Number(text);
  const isFitting = text.trim() !== '' && Number.isSafeInteger(number) && number >= least;
  if (!isFitting) throw new UsageError(`--${name} must be a whole number${least === 0 ? ' of at least 0' : ''}`);
  return number;
}

export function codeOf(status: Simulation['status']): number {
  if (status === 'completed') return EXIT.ok;
  if (status === 'failed') return EXIT.failed;
  return status === 'cancelled' ? EXIT.cancelled : EXIT.infrastructure;
}

function show({ terminal }: Call, told: Simulated, given: SimulationOptions): void {
  for (const each of told.tries.slice(0, TRIES_SHOWN)) {
    const place = `${each.path === undefined ? '' : `${each.path}: `}${nameOf(each)}`;
    const answer = each.outcome === null ? '' : `  outcome ${each.outcome}`;
    terminal.err(`${`+${durationText(each.at_ms)}`.padStart(12)}  ${printable(place)}${answer}\n`);
  }
  if (told.tries.length > TRIES_SHOWN) terminal.err(`and ${told.tries.length - TRIES_SHOWN} more tries\n`);
  for (const line of [...unsaidLines(told, given), ...unusedLines(told, given)]) terminal.err(`${printable(line)}\n`);
  const colour = told.status === 'completed' ? 'green' : told.status === 'failed' ? 'red' : 'yellow';
  const reason = told.error === null ? '' : `: ${printable(told.error)}`;
  const took = ` after ${durationText(told.virtual_ms)} of virtual time, ${told.events.length} events`;
  const word = told.status === 'LIMIT' ? 'stopped' : told.status;
  terminal.err(`${terminal.style(colour, word)}${took}${reason}\n`);
  if (told.status === 'completed') terminal.out(`${JSON.stringify(told.result, null, 2)}\n`);
}

/** `fetch`, `fetch[2]`, `fetch.save`, and which activation and try it was where it was not the first. */
function nameOf({ step, task, iteration, activation, try: count }: Simulated['unmatched'][number]): string {
  const item = iteration === null ? '' : `[${iteration}]`;
  const again = activation === 1 ? '' : ` activation ${activation}`;
  return `${step}${task === null ? '' : `.${task}`}${item}${again}${count === 1 ? '' : ` try ${count}`}`;
}

/** What answered by itself, once for each task. A default that somebody gave is what he wants. */
function unsaidLines({ unmatched }: Simulated, { default_outcome: fallback }: SimulationOptions): readonly string[] {
  if (fallback != null && fallback !== 'fail') return [];
  const counts = new Map<string, number>();
  for (const { path, step, task } of unmatched) {
    const name = `${path === undefined ? '' : `${path}: `}${step}${task === null ? '' : `.${task}`}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const became = fallback === 'fail' ? 'it failed' : 'it answered {}';
  return [...counts].map(([name, count]) => {
    const often = count === 1 ? '' : ` (${count} tries)`;
    return `No outcome was said for ${name}${often}, so ${became}.`;
  });
}

function unusedLines(told: Simulated, { outcomes }: SimulationOptions): readonly string[] {
  const steps = new Set(told.graph.nodes.map((node) => node.step));
  return told.unused_outcomes.map((index) => {
    const step = outcomes?.[index]?.step ?? '';
    // A child may have it.
    const isUnknown = told.children.length === 0 && !steps.has(step);
    return `Outcome ${index} was never used${isUnknown ? `: there is no step '${step}'` : ` (step ${step})`}.`;
  });
}
