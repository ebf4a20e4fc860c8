/**
 * A playbook, compiled for the server: templates of sets, guards, admission and loops as closures, the graph, and what
 * each step's commands may reference. Made once per catalog entry and kept.
 */
import type { Json, JsonMap } from '../json.ts';
import { type EntryScope, readScope } from '../keychain/scope.ts';
import { known } from '../known.ts';
import type { Arc, Assignment, Playbook, Step } from '../playbook/document.ts';
import { buildGraph, type Graph } from '../playbook/graph.ts';
import { type References, referencesOf } from '../playbook/references.ts';
import { type Condition, compileCondition, compileTemplate, type Template } from '../playbook/template/compiled.ts';
import { compileTree, type TreeTemplate } from '../playbook/template/tree.ts';
import { toToolConfig } from '../playbook/tool-config.ts';

export interface Plan {
  readonly playbook: Playbook;
  readonly graph: Graph;
  readonly steps: ReadonlyMap<string, StepPlan>;
}

export interface StepPlan {
  readonly step: Step;
  readonly set: readonly AssignmentPlan[];
  readonly arcs: readonly ArcPlan[];
  /** `when: null` is the else rule. */
  readonly admit:
    | readonly { readonly when: Condition | null; readonly source: string; readonly allow: boolean }[]
    | null;
  /** Null for steps without a loop. A text is a template of its own, because undefined is told from null there. */
  readonly loopIn: { readonly text: Template } | { readonly tree: TreeTemplate } | null;
  readonly maxInFlight: TreeTemplate | null;
  /** What its commands may reference (language 8.3). */
  readonly references: References;
  /** Keychain entries its commands may read, by declared scope (null: not declared); null where there are none. */
  readonly keychain: { readonly [name: string]: EntryScope | null } | null;
  /** `context.tool_config` of its commands: one task or a list of tasks. */
  readonly toolConfig: Json;
  /** Tool configuration of the claims of a cursor loop, else null. */
  readonly claimConfig: JsonMap | null;
  /** Kind shown for its commands and events. */
  readonly toolKind: string;
}

export interface ArcPlan {
  readonly arc: Arc;
  /** Null: always true. */
  readonly when: Condition | null;
  readonly source: string;
  /** Looks at the outcome, so it is followed after a failure too (language 5.7). */
  readonly handlesErrors: boolean;
  readonly set: readonly AssignmentPlan[];
}

export interface AssignmentPlan {
  readonly assignment: Assignment;
  readonly value: TreeTemplate;
}

export function compilePlan(playbook: Playbook): Plan {
  return {
    playbook,
    graph: buildGraph(playbook),
    steps: new Map(playbook.steps.map((step) => [step.name, compileStep(step, playbook.keychain)])),
  };
}

/** Of the claims of a cursor loop, the kind of the store they claim from. */
export function toolKindOf({ toolKind, claimConfig }: StepPlan, isClaim: boolean): string {
  const claim = isClaim ? claimConfig : null;
  return claim === null ? toolKind : String(claim['kind']);
}

function compileStep(step: Step, entries: readonly JsonMap[]): StepPlan {
  const configs = step.tasks.map((task) => toToolConfig(task));
  return {
    step,
    set: step.set.map(compileAssignment),
    arcs: step.arcs.map(compileArc),
    admit:
      step.admit === null
        ? null
        : step.admit.map((rule) => ({
            when: rule.when === null ? null : compileCondition(rule.when),
            source: String(rule.when),
            allow: rule.allow,
          })),
    loopIn: loopInOf(step),
    maxInFlight: step.loop === null || step.loop.maxInFlight === null ? null : compileTree(step.loop.maxInFlight),
    references: referencesOf(step),
    keychain: entriesOf(referencesOf(step), entries),
    toolConfig: step.pipeline ? configs : known(configs[0]),
    claimConfig: claimOf(step),
    toolKind: step.pipeline && configs.length > 1 ? 'pipeline' : known(step.tasks[0]).kind,
  };
}

function loopInOf({ loop }: Step): StepPlan['loopIn'] {
  if (loop === null) return null;
  return typeof loop.in === 'string' ? { text: compileTemplate(loop.in) } : { tree: compileTree(loop.in) };
}

function entriesOf(references: References, entries: readonly JsonMap[]): StepPlan['keychain'] {
  const declared = new Map(entries.map((entry) => [String(entry['name']), readScope(String(entry['scope']))] as const));
  const names = new Set([...references.keychain, ...(references.everyKeychainEntry ? declared.keys() : [])]);
  if (names.size === 0) return null;
  return Object.fromEntries([...names].map((name) => [name, declared.get(name) ?? null]));
}

/** The claim of a cursor as a task of its own: the statement, run by the tool of the cursor's kind. */
function claimOf(step: Step): JsonMap | null {
  const cursor = step.loop?.cursor ?? null;
  if (cursor === null) return null;
  // Registration requires kind and claim.
  const { kind, claim, options: _options, ...fields } = cursor;
  return {
    kind: known(kind),
    name: `${step.name}_claim`,
    ...fields,
    command: known(claim),
    input: {},
  };
}

const ERROR_ROOTS: readonly string[] = ['event', 'error'];
const ERROR_MEMBERS: readonly string[] = [
  'output.status',
  'output.error',
  'output.http',
  'output.pg',
  'output.py',
  'output.js',
];

function compileArc(arc: Arc): ArcPlan {
  const when = arc.when === null || arc.when === true ? null : compileCondition(arc.when);
  return {
    arc,
    when,
    source: String(arc.when),
    handlesErrors:
      when !== null &&
      (when.roots.some((root) => ERROR_ROOTS.includes(root)) ||
        when.members.some((member) => ERROR_MEMBERS.includes(member))),
    set: arc.set.map(compileAssignment),
  };
}

function compileAssignment(assignment: Assignment): AssignmentPlan {
  return { assignment, value: compileTree(assignment.value) };
}

/** The value of a nested assignment written into what the variable holds now (language 6.1). */
export function assignInto(current: Json | undefined, path: readonly string[], value: Json): Json {
  const [first, ...rest] = path;
  if (first === undefined) return value;
  const base: JsonMap =
    typeof current === 'object' && current !== null && !Array.isArray(current) ? (current as JsonMap) : {};
  return { ...base, [first]: assignInto(base[first], rest, value) };
}
