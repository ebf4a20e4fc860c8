/** Inspection that answers plain values: one execution, one command and one entry, each at rest. */
import type { ChartView, InspectionService } from '../../actors/inspection.ts';
import { Overlay } from '../../machines/execution/overlay.ts';
import { newRun } from '../../machines/execution/run.ts';
import { stepGraphOf } from '../../machines/playbook/step-graph.ts';
import { playbookOf, step } from '../support/playbooks.ts';
import { batchRow, commandRow, executionRow } from './fake-services.ts';

const VIEW: ChartView = {
  machine: 'execution',
  machineVersion: 1,
  value: { running: 'working' },
  states: ['execution.running.working'],
  isActive: true,
  context: {},
  nextEvents: [{ type: 'command.completed', guards: ['isParking', 'isOpen'] }],
};

export function fakeInspection(changes: Partial<InspectionService> = {}): InspectionService {
  return {
    execution: async (_id, at) => ({
      ...VIEW,
      row: executionRow(),
      at: at ?? 3,
      cursor: { lastEventId: 3, handledThrough: 3 },
      sentence: 'Waiting.',
    }),
    trace: async () => ({ frames: [], nextAfter: null }),
    keyframe: async () => ({
      n: 3,
      event: { eventId: 3, causeId: 1, type: 'command.issued', at: '2026-11-20T10:15:02.113Z' },
      changed: false,
      states: VIEW.states,
      patch: {},
      isKeyframe: true,
      status: 'completed',
    }),
    command: async () => ({ ...VIEW, machine: 'command', value: 'CLAIMED', row: commandRow(), at: 4 }),
    batch: async (requestId) => ({
      ...VIEW,
      machine: 'batch',
      value: 'accepted',
      row: { ...batchRow(), requestId },
    }),
    entry: async () => ({ ...VIEW, machine: 'keychain', value: 'live', at: 1 }),
    trial: async () => ({ view: VIEW, changed: true, recorded: [], decisions: [] }),
    drawn: async () => {
      const playbook = playbookOf([step('start')]);
      const graph = stepGraphOf(playbook);
      return { row: executionRow(), playbook, graph, run: newRun(), overlay: new Overlay(graph) };
    },
    ...changes,
  };
}
