/** What the recovery helper looks at, however it is read: over the API or from the database. It changes nothing. */
export interface ExecutionFact {
  readonly execution_id: number;
  readonly path: string;
  readonly last_event_at: string;
  /** Since then, in seconds. */
  readonly stuck_seconds: number;
  readonly non_terminal_command_count: number;
}

export interface CommandFact {
  readonly event_id: number;
  readonly execution_id: number;
  readonly command_id: number;
  readonly step: string;
  readonly status: string;
  readonly worker_id: string | null;
  /** Seconds; null where it is not claimed. */
  readonly claim_age_seconds: number | null;
  /** Seconds; null where it is claimed. */
  readonly pending_age_seconds: number | null;
  /** Null: nobody of that name is registered, or nobody holds it. */
  readonly worker_status: string | null;
  readonly worker_heartbeat_age_seconds: number | null;
}

export interface InvariantFact {
  readonly name: string;
  readonly ok: boolean;
  readonly count: number;
}

export interface WorkerFact {
  readonly status: string;
  readonly heartbeat_age_seconds: number;
}

export interface Facts {
  /** Running executions whose last event is at least this old, oldest first. */
  silentExecutions(staleSeconds: number, limit: number): Promise<readonly ExecutionFact[]>;
  /** Open commands for which `isStale` holds and that wait for no child, oldest first. */
  staleCommands(thresholds: Thresholds): Promise<readonly CommandFact[]>;
  invariants(): Promise<readonly InvariantFact[]>;
  workers(): Promise<readonly WorkerFact[]>;
  close(): Promise<void>;
}

export interface Thresholds {
  readonly staleSeconds: number;
  readonly pendingRetrySeconds: number;
  readonly maxRows: number;
}

/** Unclaimed for too long, or held by somebody who cannot be working on it. */
export function isStale(command: CommandFact, { staleSeconds, pendingRetrySeconds }: Thresholds): boolean {
  if (command.worker_id === null) return (command.pending_age_seconds ?? 0) > pendingRetrySeconds;
  if (command.worker_status !== 'ready' && command.worker_status !== 'draining') return true;
  return (command.worker_heartbeat_age_seconds ?? 0) > staleSeconds;
}
