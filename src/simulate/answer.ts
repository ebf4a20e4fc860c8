/** A simulation as its readers get it (api 2.2.16). */
import type { EventRow } from '../../actors/ports.ts';
import { Overlay } from '../../machines/execution/overlay.ts';
import { runOf } from '../../machines/execution/take-turn.ts';
import { stepGraphOf } from '../../machines/playbook/step-graph.ts';
import { replayExecution } from '../../machines/replay.ts';
import { diagnosticToWire } from '../wire/catalog.ts';
import { type EventFields, eventToWire } from '../wire/event.ts';
import { stepGraphToWire } from '../wire/graph.ts';
import type { Simulated } from '../wire/simulate.ts';
import type { TryRecord } from './script.ts';
import type { Simulation } from './simulator.ts';

export function simulatedToWire(simulation: Simulation): Simulated {
  const { row, children, tries } = simulation;
  const ofRoot = row.executionId;
  return {
    status: simulation.status,
    result: row.status === 'completed' ? row.result : null,
    error: row.error ?? limitSentence(simulation),
    virtual_ms: simulation.virtualMs,
    wall_ms: Math.round(simulation.wallMs * 10) / 10,
    events: eventsToWire(simulation.events),
    tries: tries.map((each) => ({
      ...triedToWire(each, ofRoot),
      rendered: each.rendered,
      outcome: each.outcome,
      at_ms: each.atMs,
    })),
    unmatched: tries.filter((each) => each.answeredBy === 'default').map((each) => triedToWire(each, ofRoot)),
    unused_outcomes: [...simulation.unused],
    diagnostics: simulation.warnings.map(diagnosticToWire),
    graph: graphOf(simulation),
    children: children.map((child) => ({
      execution_id: child.row.executionId,
      path: child.row.path,
      status: child.row.status,
      result: child.row.status === 'completed' ? child.row.result : null,
      error: child.row.error,
      parent_execution_id: child.row.parentExecutionId,
      events: eventsToWire(child.events),
    })),
  };
}

export function eventsToWire(events: readonly EventRow[], fields: EventFields = 'default') {
  return events.map((event) => eventToWire(event, event, fields));
}

function triedToWire(tried: TryRecord, ofRoot: number) {
  const { step, task, activation, iteration } = tried;
  const path = tried.executionId === ofRoot ? {} : { path: tried.path };
  return { step, task, activation, iteration, try: tried.try, ...path };
}

const LIMITS: Readonly<Record<NonNullable<Simulation['limit']>, string>> = {
  events: 'The simulation was stopped: it has written more events than limits.max_events',
  virtual_time: 'The simulation was stopped: it goes on beyond limits.max_virtual_seconds',
  wall_time: 'The simulation was stopped: it took too long',
  stuck: 'The simulation was stopped: nothing would ever happen again',
};

function limitSentence({ limit }: Simulation): string | null {
  return limit === null ? null : LIMITS[limit];
}

/** The steps with what became of them, by the fold that draws an execution of production. */
function graphOf({ row, playbook, events }: Simulation): Simulated['graph'] {
  const graph = stepGraphOf(playbook);
  const overlay = new Overlay(graph);
  const state = replayExecution(events, (event, live) => overlay.see(event, runOf(live)));
  const owner = { path: row.path, version: row.version };
  return stepGraphToWire(graph, owner, { row, playbook, graph, run: runOf(state), overlay });
}
