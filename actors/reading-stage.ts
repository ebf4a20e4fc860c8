/** A stage for reading: templates can be evaluated against an execution, and nothing can be recorded through it. */
import type { ReadStage } from '../machines/execution/scope.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import type { ExecutionActor } from './execution-actor.ts';

export function readingStage(actor: ExecutionActor): ReadStage {
  return {
    plan: actor.plan,
    run: runOf(actor.state),
    materials: actor.state.materials,
    identity: actor.row,
    payload: actor.engine.payload,
  };
}
