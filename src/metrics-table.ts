/** Every metric of api 7.1, declared once. Labels have bounded values: never ids, paths or texts of callers. */

export interface Metric {
  readonly type: 'counter' | 'gauge' | 'histogram' | 'summary';
  readonly help: string;
  readonly labels?: readonly string[];
  readonly buckets?: readonly number[];
}

const counter = (help: string, ...labels: string[]): Metric => ({ type: 'counter', help, labels });
const gauge = (help: string, ...labels: string[]): Metric => ({ type: 'gauge', help, labels });
const histogram = (help: string, ...labels: string[]): Metric => ({ type: 'histogram', help, labels });
/** A plain `_sum` and `_count` pair. */
const pair = (help: string): Metric => ({ type: 'summary', help });

/** Seconds. */
export const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60] as const;

export const METRICS = {
  svc_batch_enqueue_latency_seconds: pair('Time of the intake transaction of a batch'),
  svc_batch_ack_timeout_total: counter('Batches refused because the intake was too slow'),
  svc_batch_queue_depth: gauge('Batches accepted and not finished'),
  svc_batch_first_worker_claim_latency_seconds: pair('Time from accepted to processing of a batch'),
  svc_batch_accepted_total: counter('Batches accepted'),
  svc_batch_duplicate_total: counter('Batches answered with an earlier result'),
  svc_batch_enqueue_error_total: counter('Batches whose job could not be inserted'),
  svc_batch_queue_unavailable_total: counter('Batches refused because the intake could not work'),
  svc_batch_worker_unavailable_total: counter('Batches refused because no processor was alive'),
  svc_batch_processing_timeout_total: counter('Batches that took too long'),
  svc_batch_processing_error_total: counter('Batches that failed'),
  svc_batch_processing_seconds: histogram('Time to process a batch'),

  svc_up: gauge('1 while the process runs'),
  svc_info: gauge('Versions', 'version', 'schema_version', 'engine_version'),
  svc_process_start_time_seconds: gauge('Start of the process, Unix time'),
  svc_http_requests_total: counter('Answered requests by route pattern', 'method', 'route', 'code'),
  svc_http_request_seconds: histogram('Time to answer, without long polls and streams', 'route'),

  svc_executions_started_total: counter('Executions started', 'kind'),
  svc_executions_ended_total: counter('Executions ended', 'status'),
  svc_executions_running: gauge('Executions that run'),
  svc_execution_seconds: histogram('Time from start to end of an execution', 'status'),
  svc_step_dispatch_seconds: histogram('Time from issued to claimed of a command'),
  svc_command_seconds: histogram('Time from claimed to settled of a command', 'tool_kind', 'status'),
  svc_events_appended_total: counter('Events written', 'type'),
  svc_events_late_total: counter('Events of ended executions'),
  svc_events_stale_total: counter('Events of superseded claims'),
  svc_events_duplicate_total: counter('Events known already'),
  svc_turn_seconds: histogram('Time of one turn'),
  svc_flush_seconds: histogram('Time of one flush'),
  svc_flush_turns: { type: 'histogram', help: 'Turns of one flush', buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] },
  svc_flush_retries_total: counter('Flushes tried again'),
  svc_hydrations_total: counter('How actors came to life', 'from'),
  svc_engine_poisoned_total: counter('Executions ended because a turn kept failing'),
  svc_engine_assert_total: counter('Laws found broken', 'law'),

  svc_claims_total: counter('Claims by decision', 'decision', 'reason'),
  svc_claim_seconds: histogram('Time of a claim, without waiting'),
  svc_claim_waiters: gauge('Open long polls of workers'),
  svc_commands_open: gauge('Open commands', 'status', 'pool'),
  svc_commands_oldest_pending_seconds: gauge('Age of the oldest unclaimed command', 'pool'),
  svc_command_reaper_sweeps_total: counter('Sweeps', 'outcome'),
  svc_command_reaper_republished_total: counter('Commands announced again', 'because'),
  svc_command_reaper_last_sweep_timestamp_seconds: gauge('End of the last sweep, Unix time'),
  svc_reconcile_healed_total: counter('Things put right', 'kind'),
  svc_auto_resume_total: counter('Interrupted executions met at start', 'outcome'),
  svc_cleanup_cancelled_total: counter('Executions cancelled by cleanup'),
  svc_lease_held: gauge('1 while this process holds the lease', 'name'),
  svc_lease_lost_total: counter('Leases lost', 'name'),
  svc_workers: gauge('Registered workers', 'status'),
  svc_worker_offline_total: counter('Workers set offline'),

  svc_bus_published_total: counter('Hints sent', 'topic'),
  svc_bus_received_total: counter('Hints received', 'topic'),
  svc_bus_dropped_total: counter('Hints dropped', 'reason'),
  svc_bus_state: gauge('1 for the state the bus is in', 'state'),
  svc_bus_echo_seconds: histogram('Time until an own hint came back'),
  svc_db_pool: gauge('Database connections', 'state'),
  svc_db_checkout_seconds: histogram('Wait for a database connection'),
  svc_db_errors_total: counter('Errors of the database', 'sqlstate_class'),
  svc_keychain_reads_total: counter('Reads of the keychain', 'result'),
  svc_keychain_renewal_grants_total: counter('Renewals asked for', 'granted'),
  svc_credential_reveals_total: counter('Credentials read with data'),
  svc_crypto_rows: gauge('Sealed rows by key id', 'kid'),
  svc_streams_open: gauge('Open event streams', 'kind'),
  svc_schedule_fired_total: counter('Schedules fired', 'outcome'),
  svc_log_scrubbed_total: counter('Secrets masked in the log'),
  svc_partition_default_rows: gauge('Rows in default partitions'),

  svc_worker_slots: gauge('Slots of this worker', 'state'),
  svc_tool_seconds: histogram('Time of one try of a tool', 'kind', 'outcome'),
  svc_keychain_renewals_total: counter('Renewals done by this worker', 'outcome'),

  svc_trace_spans_dropped_total: counter('Spans that were not exported', 'reason'),
  svc_metrics_undeclared_total: counter('Measurements under a name that is not declared: a bug'),
} as const satisfies Readonly<Record<string, Metric>>;

export type MetricName = keyof typeof METRICS;
