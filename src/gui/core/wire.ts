/** What the API answers, as far as the GUI reads it (api 3.1). Readers tolerate more fields than are named here. */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonMap = { readonly [key: string]: Json };

export type ExecutionStatus = 'running' | 'completed' | 'failed' | 'cancelled';

export interface Execution {
  readonly execution_id: number;
  readonly catalog_id: number;
  readonly path: string;
  readonly version: number;
  readonly kind: string;
  readonly status: ExecutionStatus;
  readonly progress: number;
  readonly progress_detail: Readonly<Record<string, number>>;
  readonly result: Json;
  readonly result_truncated?: boolean;
  readonly error: string | null;
  readonly error_detail: ErrorDetail | null;
  readonly workload: JsonMap;
  readonly current_step: string | null;
  readonly parent_execution_id: number | null;
  readonly root_execution_id: number;
  readonly rerun_of: number | null;
  readonly start_time: string;
  readonly end_time: string | null;
  readonly duration_seconds: number | null;
  readonly last_event_id: number;
  readonly last_event_type: string;
  readonly pool: string;
  readonly priority: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly created_by: string | null;
}

export interface ErrorDetail {
  readonly message?: string;
  readonly failed_steps?: readonly string[];
  readonly errors?: readonly StepError[];
}

export interface StepError {
  readonly step: string | null;
  readonly task?: string | null;
  readonly code?: string | null;
  readonly kind?: string | null;
  readonly message: string;
  readonly iteration?: number | null;
}

/** Frames of the stream and the body of `/status`. */
export interface StatusBody {
  readonly execution_id: number;
  readonly status: ExecutionStatus;
  readonly current_step: string | null;
  readonly progress: number;
  readonly progress_detail: Readonly<Record<string, number>>;
  readonly end_time: string | null;
  readonly duration_seconds: number | null;
  readonly result: Json;
  readonly error: string | null;
}

export interface LogEvent {
  readonly event_id: number;
  readonly event_type: string;
  readonly node_id: string;
  readonly node_name: string;
  readonly node_type: string | null;
  readonly status: string;
  readonly created_at: string;
  readonly error: string | null;
  readonly parent_event_id: number | null;
  readonly duration: number | null;
  readonly worker_id: string | null;
  readonly context?: JsonMap;
  readonly result?: JsonMap | null;
  readonly meta?: JsonMap;
}

export interface Pagination {
  readonly page: number;
  readonly page_size: number;
  readonly total_events: number | null;
  readonly total_pages: number | null;
  readonly has_next: boolean;
}

export interface EventPage {
  readonly events: readonly LogEvent[];
  readonly pagination: Pagination;
}

export interface CatalogEntry {
  readonly catalog_id: number;
  readonly path: string;
  readonly version: number;
  readonly kind: string;
  readonly name: string;
  readonly description: string | null;
  readonly status: string;
  readonly content?: string;
  readonly payload?: JsonMap;
  readonly tasks_count: number;
  readonly created_at: string;
  readonly archived_at: string | null;
}

export interface CatalogVersion {
  readonly catalog_id: number;
  readonly version: number;
  readonly created_at: string;
  readonly created_by: string | null;
  readonly sha256: string;
  readonly archived_at: string | null;
  readonly executions: number;
}

export interface Diagnostic {
  readonly severity: 'error' | 'warning' | 'info';
  readonly code: string;
  readonly message: string;
  readonly step: string | null;
  readonly line: number | null;
  readonly column: number | null;
  readonly end_line: number | null;
  readonly end_column: number | null;
}

export interface Validation {
  readonly valid: boolean;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
  readonly path: string | null;
  readonly kind: string | null;
  readonly diagnostics: readonly Diagnostic[];
}

export interface CommandItem {
  readonly command_id: number;
  readonly execution_id: number;
  readonly step: string;
  readonly status: string;
  readonly age_seconds: number;
  readonly claim_age_seconds: number | null;
  readonly worker_id: string | null;
  readonly worker_status: string | null;
  readonly attempt: number;
  readonly next_wake_at: string | null;
  readonly republish_count: number;
}

export interface Worker {
  readonly name: string;
  readonly kind: string;
  readonly status: string;
  readonly capacity: number;
  readonly pools: readonly string[];
  readonly tool_kinds: readonly string[];
  readonly hostname: string | null;
  readonly version: string | null;
  readonly heartbeat: string;
  readonly heartbeat_age_seconds: number;
  readonly stale: boolean;
  readonly open_commands: number;
}

export interface Credential {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly description: string | null;
  readonly tags: readonly string[];
  readonly meta: JsonMap;
  readonly schema: JsonMap | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly data?: JsonMap | null;
}

export interface Schedule {
  readonly schedule_id: number;
  readonly name: string;
  readonly path: string;
  readonly cron: string | null;
  readonly interval_seconds: number | null;
  readonly at: string | null;
  readonly timezone: string;
  readonly workload: JsonMap;
  readonly enabled: boolean;
  readonly overlap: string;
  readonly catch_up: string;
  readonly next_run_at: string | null;
  readonly last_run_at: string | null;
  readonly last_execution_id: number | null;
  readonly last_status: string | null;
}

export interface KeychainItem {
  readonly keychain_name: string;
  readonly cache_key: string;
  readonly scope_type: string;
  readonly credential_type: string;
  readonly cache_type: string;
  readonly expires_at: string | null;
  readonly expired: boolean;
  readonly auto_renew: boolean;
  readonly access_count: number;
}

export interface DashboardStats {
  readonly total_executions: number;
  readonly running_executions: number;
  readonly successful_executions: number;
  readonly failed_executions: number;
  readonly cancelled_executions: number;
  readonly total_playbooks: number;
  readonly total_workers: number;
  readonly queue_depth: number;
}

export interface StartAnswer {
  readonly execution_id: number;
  readonly path: string;
}

/** The step graph (api 2.2.14). */
export interface StepGraph {
  readonly path: string;
  readonly version: number | null;
  readonly entry: string | null;
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  readonly mermaid?: string;
}

export interface GraphNode {
  readonly id: string;
  readonly step: string;
  readonly kinds: readonly string[];
  readonly loop: JsonMap | string | null;
  readonly line: number | null;
  readonly state: StepState | null;
}

export interface StepState {
  readonly status: string;
  readonly activations: number;
  readonly iterations: { readonly total: number | null; readonly done: number; readonly failed: number } | null;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly duration_ms: number | null;
  readonly error: string | null;
}

export interface GraphEdge {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly when: string | null;
  readonly mode: string;
  readonly back: boolean;
  readonly taken: number | null;
}

/** One state of a chart at one moment (api 2.16). */
export interface MachineView {
  readonly machine: string;
  readonly machine_version: number;
  readonly at: number;
  readonly value: Json;
  readonly states: readonly string[];
  readonly status: string;
  readonly context: JsonMap;
  readonly next_events: readonly { readonly type: string; readonly guards: readonly string[] }[];
  readonly cursor?: { readonly last_event_id: number; readonly handled_through: number };
}

export interface TraceFrame {
  readonly n: number;
  readonly event_id: number;
  readonly cause_id: number;
  readonly type: string;
  readonly at: string;
  readonly changed: boolean;
  readonly states: readonly string[];
  readonly context_patch?: JsonMap;
  readonly keyframe?: boolean;
}

export interface MachineItem {
  readonly name: string;
  readonly version: number;
  readonly states: number;
  readonly description: string | null;
}

/** The part of an XState config that is drawn. */
export interface ChartConfig {
  readonly id?: string;
  readonly description?: string;
  readonly initial?: string;
  readonly type?: string;
  readonly tags?: readonly string[] | string;
  readonly on?: Readonly<Record<string, Json>>;
  readonly states?: Readonly<Record<string, ChartConfig>>;
}

export interface MachineDetail {
  readonly name: string;
  readonly version: number;
  readonly config: ChartConfig;
  readonly mermaid: string;
  readonly scxml: string;
}
