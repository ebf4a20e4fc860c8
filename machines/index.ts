/**
 * The registry of charts: inspection, drawing, documents and the tests of all charts read it. A chart that is not here
 * is not shown; one that is here is shown in full, which is safe because no context holds a secret.
 */
import type { AnyStateMachine } from 'xstate';
import { BATCH_MACHINE_VERSION, batchMachine } from './batch/machine.ts';
import { commandMachine } from './command/machine.ts';
import { EXECUTION_MACHINE_VERSION, executionMachine } from './execution/machine.ts';
import { keychainMachine } from './keychain/machine.ts';
import { outlineOf } from './outline.ts';

export interface Chart {
  readonly name: string;
  /** Counts changes of meaning: of a state, or of what folding an event does. */
  readonly version: number;
  readonly description: string;
  readonly machine: AnyStateMachine;
}

function chart(machine: AnyStateMachine, version: number): Chart {
  return { name: machine.id, version, description: outlineOf(machine).description, machine };
}

export const EXECUTION_CHART = chart(executionMachine, EXECUTION_MACHINE_VERSION);
export const COMMAND_CHART = chart(commandMachine, 1);
export const KEYCHAIN_CHART = chart(keychainMachine, 1);
export const BATCH_CHART = chart(batchMachine, BATCH_MACHINE_VERSION);

export const CHARTS: readonly Chart[] = [EXECUTION_CHART, COMMAND_CHART, KEYCHAIN_CHART, BATCH_CHART];

export function chartNamed(name: string): Chart | null {
  return CHARTS.find((each) => each.name === name) ?? null;
}
