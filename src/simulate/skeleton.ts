/**
 * A playbook without its data: same steps, arcs, joins and loops, but tools do nothing, nothing is assigned, and every
 * question that data would answer is put to an oracle at the moment the engine asks it. What remains is the routing, and
 * that is the engine's own.
 */
import { type ArcPlan, compilePlan, type Plan, type StepPlan } from '../../machines/execution/plan.ts';
import type { Json } from '../../machines/json.ts';
import type { Playbook, Step } from '../../machines/playbook/document.ts';
import { CompiledCondition, CompiledTemplate, type Condition } from '../../machines/playbook/template/compiled.ts';
import type { Scope } from '../../machines/playbook/template/facade.ts';
import { Names } from '../../machines/playbook/template/names.ts';

export interface Oracle {
  /** Whether the arc is taken; `scope` is the one its guard sees. Asked once for each arc, in the order of the engine. */
  takes(step: string, arc: ArcPlan, scope: Scope): boolean;
  /** Whether an admission rule holds. */
  admits(step: string, rule: Condition, scope: Scope): boolean;
  /** How many items a loop has. */
  items(step: string): number;
}

export function skeletonOf(playbook: Playbook, oracle: Oracle): Plan {
  const real = compilePlan(playbook);
  const bare = compilePlan({ ...playbook, keychain: [], steps: playbook.steps.map((step) => bareStep(step, oracle)) });
  const steps = [...bare.steps].map(
    ([name, plan]) => [name, asking(plan, real.steps.get(name) ?? plan, oracle)] as const,
  );
  return { ...bare, steps: new Map(steps) };
}

function bareStep(step: Step, oracle: Oracle): Step {
  const { name } = step;
  const task = {
    name: `${name}_task`,
    kind: 'noop',
    fields: {},
    input: {},
    set: [],
    rules: [],
    onUnmatched: null,
    timeout: null,
    output: null,
  };
  const loop =
    step.loop === null
      ? null
      : ({
          ...step.loop,
          mode: step.loop.mode === 'parallel' ? 'parallel' : 'sequential',
          maxInFlight: null,
          cursor: null,
          frame: {},
          // Looked at once for each activation.
          get in(): Json {
            return Array.from({ length: oracle.items(name) }, (_, index) => index);
          },
        } as const);
  const arcs = step.arcs.map((arc) => ({ ...arc, set: [] }));
  return { ...step, tasks: [task], pipeline: false, loop, set: [], arcs };
}

/** The bare plan with the questions of the real one. */
function asking(bare: StepPlan, real: StepPlan, oracle: Oracle): StepPlan {
  const { name } = real.step;
  return {
    ...bare,
    arcs: real.arcs.map((arc) => ({
      ...arc,
      set: [],
      when: asked(arc.source, (scope) => oracle.takes(name, arc, scope)),
    })),
    admit:
      real.admit?.map((rule) => {
        const { when } = rule;
        return when === null
          ? rule
          : { ...rule, when: asked(rule.source, (scope) => oracle.admits(name, when, scope)) };
      }) ?? null,
  };
}

/** A condition whose truth is asked for when it is evaluated. */
function asked(source: string, ask: (scope: Scope) => boolean): Condition {
  const body = new CompiledTemplate(source, 'expression', new Names(), {
    slots: 0,
    evaluate: (run) => ask(run.scope),
    margins: ['', ''],
    excerpt: () => source,
  });
  return new CompiledCondition(source, body);
}
