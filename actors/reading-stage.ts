/** A stage for reading: templates can be evaluated against an execution, and nothing can be recorded through it. */
import type { ServerScope } from '../machines/execution/scope.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import type { ExecutionActor } from './execution-actor.ts';

/** The part of a stage that a scope reads. */
export function readingStage(actor: ExecutionActor): ConstructorParameters<typeof ServerScope>[0] {
  const refuse = (): never => {
    throw new Error('reading an execution records nothing');
  };
  return {
    plan: actor.plan,
    run: runOf(actor.state),
    materials: actor.state.materials,
    identity: actor.row,
    limits: actor.engine.limits,
    copied: [],
    record: refuse,
    issue: refuse,
    newId: refuse,
    isPending: () => false,
    cancelChild: refuse,
    payload: actor.engine.payload,
    store: () => null,
  };
}
