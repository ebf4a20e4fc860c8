/**
 * How rows become values: the select lists name each column as the port names it, so a row needs no second mapping.
 * The types of the columns are given by the schema; ids and instants are read as session.ts says.
 */

/** Columns of `core.event` that make a LogEvent. */
export const EVENT_COLUMNS = `
  event_id as "eventId", cause_id as "causeId", event_type as "type", status, node_id as "nodeId",
  node_name as "nodeName", node_type as "nodeType", parent_event_id as "parentEventId",
  parent_execution_id as "parentExecutionId", command_id as "commandId", attempt, worker_id as "workerId",
  report_id as "reportId", report_seq as "reportSeq", closes, stale, duration, context, result, error, meta,
  engine_version as "engineVersion", created_at as "at"`;

/** Columns of `core.execution` that make an ExecutionRow. */
export const EXECUTION_COLUMNS = `
  execution_id as "executionId", root_execution_id as "rootExecutionId",
  parent_execution_id as "parentExecutionId", parent_command_id as "parentCommandId",
  parent_event_id as "parentEventId", rerun_of as "rerunOf", catalog_id as "catalogId", path, version, kind,
  pool, priority, status, workload, result, result_ref as "resultRef", error, error_detail as "errorDetail",
  progress_detail as "progressDetail", current_step as "currentStep", progress, last_event_id as "lastEventId",
  handled_through as "handledThrough", last_event_type as "lastEventType", last_node_name as "lastNodeName",
  engine_version as "engineVersion", machine_version as "machineVersion", open_commands as "openCommands",
  next_wake_at as "nextWakeAt", start_time as "startTime", end_time as "endTime",
  idempotency_key as "idempotencyKey", encode(request_hash, 'hex') as "requestHash", labels, trace,
  created_by as "createdBy"`;

/** Columns of `core.command` that make a CommandRow. */
export const COMMAND_COLUMNS = `
  execution_id as "executionId", command_id as "commandId", event_id as "eventId", catalog_id as "catalogId",
  command_key as "commandKey", step_name as "stepName", tool_kind as "toolKind", pool, activation,
  iteration_index as "iterationIndex", status, attempt, max_attempts as "maxAttempts", priority,
  worker_id as "workerId", claim_id as "claimId", claimed_at as "claimedAt", started_at as "startedAt",
  heartbeat_at as "heartbeatAt", completed_at as "completedAt", parked_on as "parkedOn",
  next_wake_at as "nextWakeAt", republished_at as "republishedAt", republish_count as "republishCount",
  context, context_ref as "contextRef", error, latest_event_id as "latestEventId", meta,
  created_at as "createdAt"`;

/** Columns of `core.command` that make a CommandHint. */
export const HINT_COLUMNS = `
  execution_id as "executionId", command_id as "commandId", pool, priority, tool_kind as "toolKind",
  step_name as "stepName", attempt, republish_count as "republishCount", meta ->> 'trace' as trace`;

/** Command states in which there is still something to do; as the partial indexes say it. */
export const OPEN = `status in ('PENDING', 'CLAIMED', 'RUNNING')`;
export const HELD = `status in ('CLAIMED', 'RUNNING')`;
