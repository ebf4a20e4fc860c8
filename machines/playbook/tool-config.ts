/**
 * The wire form of a task: the flat `tool_config` of a command (api 3.1). `readTask` is its exact inverse, so a
 * worker runs what registration checked. A kind with a field `name` of its own gets its label under `label`.
 */
import { isMap, type Json, type JsonMap } from '../json.ts';
import type { Assignment, OutputOptions, Rule, Task } from './document.ts';
import { type SetPlace, targetOf } from './read-set.ts';

/** `{kind, name, label?, ...fields, input, step_input, set, spec: {policy}, timeout, output}`; what is empty is left out. */
export function toToolConfig(task: Task): JsonMap {
  const named = Object.hasOwn(task.fields, 'name');
  const policy: JsonMap = {
    ...(task.onUnmatched === null ? {} : { on_unmatched: task.onUnmatched }),
    ...(task.rules.length === 0 ? {} : { rules: task.rules.map(ruleToWire) }),
  };
  return {
    kind: task.kind,
    ...(named ? { label: task.name } : { name: task.name }),
    ...task.fields,
    ...(Object.keys(task.input).length === 0 ? {} : { input: task.input }),
    ...(task.stepInput === undefined ? {} : { step_input: task.stepInput }),
    ...(task.set.length === 0 ? {} : { set: setToWire(task.set) }),
    ...(Object.keys(policy).length === 0 ? {} : { spec: { policy } }),
    ...(task.timeout === null ? {} : { timeout: task.timeout }),
    ...(task.output === null ? {} : { output: outputToWire(task.output) }),
  };
}

const WIRE_KEYS = new Set(['kind', 'label', 'input', 'step_input', 'set', 'spec', 'timeout', 'output']);

/** The task of a `tool_config` that was issued by `toToolConfig`. Parts of an unexpected shape count as absent. */
export function readTask(config: JsonMap, fallbackName: string): Task {
  const { label, name } = config;
  const fields = Object.entries(config).filter(
    ([key]) => !WIRE_KEYS.has(key) && (key !== 'name' || label !== undefined),
  );
  const policy = mapOf(mapOf(config['spec'])['policy']);
  const unmatched = policy['on_unmatched'];
  const stepInput = listOf(config['step_input']).filter((name) => typeof name === 'string');
  return {
    name: textOr(label ?? name, fallbackName),
    kind: textOr(config['kind'], ''),
    fields: Object.fromEntries(fields),
    input: mapOf(config['input']),
    ...(stepInput.length === 0 ? {} : { stepInput }),
    set: setFromWire(config['set'], 'task'),
    rules: listOf(policy['rules']).map((rule, index) => ruleFromWire(mapOf(rule), index)),
    onUnmatched: unmatched === 'fail' || unmatched === 'continue' ? unmatched : null,
    timeout: config['timeout'] ?? null,
    output: config['output'] === undefined ? null : outputFromWire(mapOf(config['output'])),
  };
}

function setToWire(set: readonly Assignment[]): JsonMap {
  return Object.fromEntries(set.map(({ key, value }) => [key, value]));
}

function setFromWire(wire: Json | undefined, where: SetPlace): Assignment[] {
  return Object.entries(mapOf(wire)).flatMap(([key, value]) => {
    const target = targetOf(key, where);
    return target ? [{ key, ...target, value }] : [];
  });
}

function ruleToWire(rule: Rule): JsonMap {
  const then = {
    do: rule.action,
    ...(rule.set.length === 0 ? {} : { set: setToWire(rule.set) }),
    ...(rule.to === null ? {} : { to: rule.to }),
    ...(rule.attempts === null ? {} : { attempts: rule.attempts }),
    ...(rule.delay === null ? {} : { delay: rule.delay }),
    ...(rule.backoff === null ? {} : { backoff: rule.backoff }),
    ...(rule.maxDelay === null ? {} : { max_delay: rule.maxDelay }),
    ...(rule.multiplier === null ? {} : { backoff_multiplier: rule.multiplier }),
  };
  return rule.when === null ? { else: { then } } : { when: rule.when, then };
}

function ruleFromWire(wire: JsonMap, index: number): Rule {
  const { when } = wire;
  const then = mapOf(wire['then'] ?? mapOf(wire['else'])['then']);
  const multiplier = then['backoff_multiplier'];
  return {
    index,
    when: typeof when === 'string' || typeof when === 'boolean' ? when : null,
    action: actionOf(then['do']),
    set: setFromWire(then['set'], 'rule'),
    to: typeof then['to'] === 'string' ? then['to'] : null,
    attempts: then['attempts'] ?? null,
    delay: then['delay'] ?? null,
    backoff: then['backoff'] ?? null,
    maxDelay: then['max_delay'] ?? null,
    multiplier: typeof multiplier === 'number' ? multiplier : null,
  };
}

function actionOf(value: Json | undefined): Rule['action'] {
  switch (value) {
    case 'retry':
    case 'jump':
    case 'break':
    case 'fail':
      return value;
    default:
      return 'continue';
  }
}

function outputToWire({ select, inlineMaxBytes, previewMaxBytes, store }: OutputOptions): JsonMap {
  return {
    ...(select.length === 0 ? {} : { select: select.map(({ path, as }) => ({ path, as })) }),
    ...(inlineMaxBytes === null ? {} : { inline_max_bytes: inlineMaxBytes }),
    ...(previewMaxBytes === null ? {} : { preview_max_bytes: previewMaxBytes }),
    ...(store === null ? {} : { store: { kind: store } }),
  };
}

function outputFromWire(wire: JsonMap): OutputOptions {
  const { inline_max_bytes: inline, preview_max_bytes: preview } = wire;
  const store = mapOf(wire['store'])['kind'];
  return {
    select: listOf(wire['select']).flatMap((item) => {
      const { path, as } = mapOf(item);
      return typeof path === 'string' && typeof as === 'string' ? [{ path, as }] : [];
    }),
    inlineMaxBytes: typeof inline === 'number' ? inline : null,
    previewMaxBytes: typeof preview === 'number' ? preview : null,
    store: typeof store === 'string' ? store : null,
  };
}

function mapOf(value: Json | undefined): JsonMap {
  return isMap(value) ? value : {};
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function textOr(value: Json | undefined, fallback: string): string {
  return typeof value === 'string' ? value : fallback;
}
