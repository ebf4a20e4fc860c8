/**
 * The planner: what the names of the execution chart's decisions mean. It looks at the run after the event was folded and
 * records further events; each is folded before the next is decided.
 */
import type { LogEvent } from '../events.ts';
import { known, present } from '../known.ts';
import { recordArrivals, releaseJoins } from './barrier.ts';
import { type Decision, failuresOf, isHalted, recordWrites } from './decision.ts';
import { dispatch } from './dispatch.ts';
import { closeOpenCommands, concludeDecision } from './ending.ts';
import { childNamedBy } from './evolve.ts';
import { continueLoop } from './loop.ts';
import { endActivation, followRoutes, recordSkips } from './routing.ts';
import type { Situation, Stage } from './stage.ts';

/** Answers one named decision of the chart for the event that was just folded. */
export function decide(stage: Stage, name: string, event: LogEvent): void {
  known(DECIDERS.get(name))(stage, event);
}

const DECIDERS: ReadonlyMap<string, (stage: Stage, event: LogEvent) => void> = new Map([
  ['decideEntry', decideEntry],
  ['decideAfterCommand', decideAfterCommand],
  ['decideAfterPark', decideAfterPark],
  ['decideAfterEnd', decideAfterEnd],
]);

function decideEntry(stage: Stage, event: LogEvent): void {
  const decision = openDecision(stage);
  for (const draft of stage.copied) stage.record(draft);
  const from = event.context['from_step'];
  const entry = typeof from === 'string' ? from : stage.plan.playbook.entryStep;
  decision.dispatch(entry, null);
  settle(decision, entry, event);
}

function decideAfterCommand(stage: Stage, event: LogEvent): void {
  const settled = present(stage.run.settled);
  const plan = stage.plan.steps.get(settled.step);
  // Rows of other writers may open commands of steps that the playbook does not have.
  if (plan === undefined) return;
  const decision = openDecision(stage);
  const body = stage.materials.settledBody(settled);
  recordWrites(decision, settled.step, body?.writes ?? null);
  if (settled.current) {
    if (plan.step.loop !== null) {
      continueLoop(decision, plan, settled);
    } else {
      const situation: Situation = {
        step: plan,
        outcome: settled.ok ? 'ok' : 'failed',
        isLoop: false,
        activation: settled.activation,
        body,
        failure: null,
        total: null,
        at: event.at,
      };
      // A further failure while the execution is failing is told at its end too.
      if (!settled.ok && isHalted(decision)) decision.failures.push(...failuresOf(situation));
      else decision.end(situation);
    }
  }
  settle(decision, settled.step, event);
}

/** The execution is failing: a wait that would begin now is over with those that were under way (language 5.7). */
function decideAfterPark(stage: Stage, event: LogEvent): void {
  stage.cancelChild(childNamedBy(event));
  concludeDecision(openDecision(stage), event);
}

/** A terminal event from outside leaves commands open. */
function decideAfterEnd(stage: Stage, event: LogEvent): void {
  const reason = event.context['reason'];
  closeOpenCommands(stage, typeof reason === 'string' ? reason : `the execution was ended by ${event.type}`);
}

function settle(decision: Decision, step: string, event: LogEvent): void {
  followRoutes(decision);
  releaseJoins(decision);
  recordArrivals(decision, step);
  recordSkips(decision);
  concludeDecision(decision, event);
}

function openDecision(stage: Stage): Decision {
  const decision: Decision = {
    stage,
    arrivals: new Map(),
    routes: [],
    notTaken: new Set(),
    failures: [],
    cascade: 0,
    dispatch: (step, situation) => dispatch(decision, step, situation),
    end: (situation) => endActivation(decision, situation),
  };
  return decision;
}
