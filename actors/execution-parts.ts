/** What the services of executions are made of, and what they have in common. */
import type { JsonMap } from '../machines/json.ts';
import type { AuditRow, CurrentCaller } from './audit.ts';
import { DomainError } from './errors.ts';
import type { Engine } from './execution-actor.ts';
import type { Flusher } from './flush.ts';
import type { KeychainPreparation } from './keychain-preparation.ts';
import type { Bus, Clock, ExecutionRow, Ids, Log, Meter, Store } from './ports.ts';
import type { CatalogService } from './services.ts';
import type { Supervisor } from './supervisor.ts';

export interface ExecutionServiceParts {
  readonly store: Store;
  readonly flusher: Flusher;
  readonly supervisor: Supervisor;
  readonly catalog: CatalogService;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly engine: Engine;
  readonly bus: Bus;
  readonly log: Log;
  readonly meter: Meter;
  /** `default` means that the request named none. */
  readonly nestingMax: number;
  /** Null: declared entries are not resolved here. */
  readonly keychain: KeychainPreparation | null;
  /** Who asks, where requests are served: what people do leaves audit rows. */
  readonly caller: CurrentCaller | null;
}

export function noSuchExecution(executionId: number): DomainError {
  return new DomainError('not_found', `Execution ${executionId} not found`);
}

/** Throws not_found. */
export async function executionRow(
  store: Pick<ExecutionServiceParts['store'], 'execution'>,
  executionId: number,
): Promise<ExecutionRow> {
  const row = await store.execution(executionId);
  if (row === null) throw noSuchExecution(executionId);
  return row;
}

/** Null where no person asks: children that workers start, schedules, what the service does by itself. */
export async function auditOf(
  { caller: current, ids }: Pick<ExecutionServiceParts, 'caller' | 'ids'>,
  action: string,
  executionId: number,
  detail: JsonMap,
): Promise<AuditRow | null> {
  const caller = current?.() ?? null;
  if (caller === null || caller.requestId === null || caller.role === 'worker') return null;
  await ids.reserve(1);
  return { ...caller, auditId: ids.next(), action, target: String(executionId), outcome: 'ok', detail };
}
