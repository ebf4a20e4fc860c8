/** Reads `workflow`: the steps with their tools, inputs, loop, assignments and routing (language 4). */
import type { JsonMap } from '../json.ts';
import type { Step, Task } from './document.ts';
import { literalSeconds } from './literal.ts';
import { isReserved, SHADOWING_NAMES, shown } from './names.ts';
import {
  given,
  isListPlace,
  isMapPlace,
  items,
  type ListPlace,
  type MapPlace,
  mapJson,
  member,
  type Place,
  textOf,
} from './place.ts';
import { readFailureMode, readLoop } from './read-loop.ts';
import { mergeOutput, readOutput } from './read-output.ts';
import { readAdmission, readNext } from './read-routing.ts';
import { readSets, SET_KEYS } from './read-set.ts';
import { readTools } from './read-tools.ts';
import type { Workbook } from './read-workbook.ts';
import { DOCUMENT, type Report, type Subject, stepSubject } from './report.ts';
import { checkTemplates } from './template-checks.ts';
import { warnUnknownKeys } from './unknown-keys.ts';

export const STEPS_MAX = 1000;
const NAME_MAX = 255;

const STEP_KEYS: ReadonlySet<string> = new Set([
  ...SET_KEYS,
  'step',
  'desc',
  'description',
  'tool',
  'input',
  'args',
  'loop',
  'next',
  'output',
  'output_select',
  'spec',
  'when',
  'vars',
  'case',
  'type',
  'result',
]);
const SPEC_KEYS = new Set(['policy', 'timeout', 'next_mode']);
const POLICY_KEYS = new Set(['admit', 'failure']);
const REPLACED: Readonly<Record<string, string>> = {
  case: "use 'next.arcs' with 'when'",
  type: "use 'tool.kind'",
  result: "use 'output_select' or 'set'",
};

/** The steps that could be read. Names are checked first, so that arcs are judged against all of them. */
export function readSteps(report: Report, root: MapPlace, workbook: Workbook): Step[] {
  const workflow = member(root, 'workflow');
  if (!isListPlace(workflow) || workflow.node.items.length === 0) {
    report.error('workflow_empty', DOCUMENT, workflow ?? root, 'workflow needs at least one step');
    return [];
  }
  if (workflow.node.items.length > STEPS_MAX) {
    report.error('yaml_syntax', DOCUMENT, workflow, `workflow has more than ${STEPS_MAX} steps`);
    return [];
  }
  const names = readNames(report, workflow);
  const targets = new Set(names.map(({ name }) => name));
  return names.flatMap(({ name, place }) => readStep(report, name, place, targets, workbook) ?? []);
}

function readNames(report: Report, workflow: ListPlace): { readonly name: string; readonly place: MapPlace }[] {
  const first = new Map<string, number>();
  return items(workflow).flatMap((place) => {
    const namePlace = isMapPlace(place) ? member(place, 'step') : null;
    const name = textOf(namePlace) ?? '';
    if (!isMapPlace(place) || namePlace === null || name.trim() === '') {
      report.error('step_name', DOCUMENT, namePlace?.node.json == null ? place : namePlace, 'step name is missing');
      // What else is wrong with the step is still worth saying.
      return isMapPlace(place) ? [{ name: '', place }] : [];
    }
    const subject = stepSubject(name);
    const line = first.get(name);
    if (line !== undefined) {
      report.error('step_duplicate', subject, namePlace, `duplicate step name, first used on line ${line}`);
    } else first.set(name, report.lineOf(namePlace));
    if (name.length > NAME_MAX) {
      report.error('step_name', subject, namePlace, `step name is longer than ${NAME_MAX} characters`);
    } else if (isReserved(name)) {
      report.error('step_name', subject, namePlace, `step name '${name}' is reserved`);
    } else if (SHADOWING_NAMES.has(name)) {
      report.warn(
        'shadowed_name',
        subject,
        namePlace,
        `'${name}' is hidden by the engine's own name, read it as steps.${name}`,
      );
    }
    return [{ name, place }];
  });
}

function readStep(
  report: Report,
  name: string,
  place: MapPlace,
  targets: ReadonlySet<string>,
  workbook: Workbook,
): Step | null {
  const subject = name === '' ? DOCUMENT : stepSubject(name);
  checkStepKeys(report, subject, place);
  const input = readInput(report, subject, place);
  const tools = readTools(report, { step: place, name, subject, stepInput: input, workbook });
  const spec = given(place, 'spec');
  const policy = isMapPlace(spec) ? given(spec, 'policy') : null;
  if (isMapPlace(policy)) warnUnknownKeys(report, subject, policy, POLICY_KEYS, 'spec.policy of a step');
  const routing = readNext(report, subject, place, targets);
  const step = {
    name,
    description: textOf(member(place, 'desc')) ?? textOf(member(place, 'description')),
    pipeline: tools?.pipeline ?? false,
    tasks: withStepOutput(tools?.tasks ?? [], readOutput(report, subject, place)),
    loop: readLoop(report, subject, place),
    set: readSets(report, subject, place, 'step'),
    mode: routing.mode,
    arcs: routing.arcs,
    admit: readAdmission(report, subject, place),
    failureMode: readFailureMode(report, subject, policy),
    timeoutSeconds: readTimeout(report, subject, spec),
    line: report.lineOf(place),
  };
  return tools === null || name === '' ? null : step;
}

function checkStepKeys(report: Report, subject: Subject, place: MapPlace): void {
  warnUnknownKeys(report, subject, place, STEP_KEYS, 'a step');
  for (const [key, advice] of Object.entries(REPLACED)) {
    const found = member(place, key);
    if (found) report.error('step_key', subject, found, `'${key}' is not supported, ${advice}`, 'key');
  }
  const vars = member(place, 'vars');
  if (vars) report.warn('step_vars', subject, vars, "'vars' on a step is ignored, use 'set'", 'key');
  const spec = given(place, 'spec');
  if (isMapPlace(spec)) warnUnknownKeys(report, subject, spec, SPEC_KEYS, 'spec of a step');
  else if (spec) report.warn('unknown_key', subject, spec, "'spec' of a step is not a map and is ignored", 'key');
}

/** Step `input` over its legacy spelling `args`. */
function readInput(report: Report, subject: Subject, step: MapPlace): JsonMap {
  const args = member(step, 'args');
  if (args) report.warn('legacy_args', subject, args, "'args' on a step is read as 'input'", 'key');
  const read = (key: string): JsonMap => {
    const place = given(step, key);
    if (place === null) return {};
    checkTemplates(report, subject, place, 'worker');
    if (!isMapPlace(place)) report.error('tool_field', subject, place, `'${key}' must be a map`);
    return mapJson(place);
  };
  return { ...read('args'), ...read('input') };
}

function withStepOutput(tasks: readonly Task[], output: Task['output']): readonly Task[] {
  if (output === null) return tasks;
  return tasks.map((task, index) =>
    index === tasks.length - 1 ? { ...task, output: mergeOutput(task.output, output) } : task,
  );
}

function readTimeout(report: Report, subject: Subject, spec: Place | null): number | null {
  const place = isMapPlace(spec) ? given(spec, 'timeout') : null;
  if (place === null) return null;
  const seconds = literalSeconds(place.node.json);
  if (seconds === null) {
    report.error(
      'tool_field',
      subject,
      place,
      `'spec.timeout' must be seconds or text such as 30s, 5m, 1h (got ${shown(JSON.stringify(place.node.json))})`,
    );
  }
  return seconds;
}
