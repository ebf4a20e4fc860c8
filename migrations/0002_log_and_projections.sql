-- what: the event log, and the two projections that answer "how is it going" and "what is there to do".
-- why: constraints here say what the charts say: one terminal event, one settlement of a command, no open command
--      without a moment at which somebody looks again.
-- locks: creates tables only.
-- breaking: no

create domain core.event_type as text check (value ~ '^[a-z][a-z_]*([._][a-z_]+)*$');
create domain core.execution_status as text
  check (value in ('pending', 'started', 'running', 'completed', 'failed', 'cancelled', 'skipped'));

create table core.event (
  execution_id bigint not null,
  event_id bigint not null check (event_id >= 1),
  cause_id bigint not null,
  catalog_id bigint not null,
  event_type core.event_type not null,
  status core.execution_status not null,
  node_id text,
  node_name text not null,
  node_type text,
  parent_event_id bigint check (parent_event_id < event_id),
  parent_execution_id bigint,
  command_id bigint,
  attempt int,
  worker_id text,
  report_id text,
  report_seq int,
  closes boolean not null default false,
  stale boolean not null default false,
  duration double precision check (duration >= 0),
  context jsonb not null default '{}',
  result jsonb constraint event_result check (
    result is null or jsonb_typeof(result) = 'object' and coalesce(jsonb_typeof(result -> 'status') = 'string', false)
    and result - array['status', 'context', 'reference'] = '{}'),
  error text,
  meta jsonb not null default '{}',
  engine_version int,
  created_at timestamptz not null default clock_timestamp(),
  constraint event_pkey primary key (execution_id, event_id),
  constraint event_cause check (cause_id between 1 and event_id)
) partition by range (execution_id);

create unique index event_one_terminal on core.event (execution_id)
  where event_type in ('playbook.completed', 'playbook.failed', 'execution.cancelled');
create unique index event_report on core.event (execution_id, report_id, report_seq) where report_id is not null;
create unique index event_natural_key on core.event (execution_id, command_id, event_type)
  where not stale and event_type in ('command.started', 'call.done', 'call.error', 'step.exit', 'command.completed',
    'command.failed', 'command.cancelled');
create unique index event_settled_once on core.event (execution_id, command_id) where closes;
create index event_cause on core.event (execution_id, cause_id, event_id);
create index event_by_type on core.event (execution_id, event_type, event_id desc);

create trigger event_append_only before update or delete on core.event for each row
  execute function core.refuse_change();

create view core.event_log as
select execution_id, event_id, event_type, node_id, node_name, status, created_at, context, result, error, catalog_id,
  parent_execution_id, parent_event_id, duration, node_type
from core.event;

create table core.execution (
  execution_id bigint primary key,
  root_execution_id bigint not null,
  parent_execution_id bigint,
  parent_command_id bigint,
  parent_event_id bigint,
  rerun_of bigint,
  catalog_id bigint not null references core.catalog (catalog_id),
  path text not null,
  version int not null,
  kind text not null,
  pool text not null,
  priority smallint not null default 0,
  status text not null check (status in ('running', 'completed', 'failed', 'cancelled')),
  workload jsonb not null,
  workload_ref text,
  result jsonb,
  error_detail jsonb,
  progress_detail jsonb,
  result_ref text,
  error text,
  current_step text,
  progress smallint not null default 0 check (progress between 0 and 100),
  last_event_id bigint not null,
  handled_through bigint not null,
  last_event_type text,
  last_node_name text,
  engine_version int not null,
  machine_version int not null,
  -- {value, context, through_event_id}: a cache of the log, never the truth.
  state jsonb,
  open_commands int not null default 0 check (open_commands >= 0),
  next_wake_at timestamptz,
  start_time timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  end_time timestamptz,
  idempotency_key text,
  request_hash bytea,
  labels jsonb not null default '{}',
  trace text,
  created_by text,
  -- An index predicate that named last_event_id would make every head update touch all indexes (no HOT update).
  has_inbox boolean not null generated always as (status = 'running' and handled_through < last_event_id) stored,
  constraint execution_inbox check (handled_through <= last_event_id),
  constraint execution_end check ((status = 'running') = (end_time is null)),
  constraint execution_rest check (status = 'running' or (progress = 100 and open_commands = 0)),
  constraint execution_failure check ((status = 'failed') <= (error is not null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
  autovacuum_analyze_scale_factor = 0.05);

create unique index execution_idempotency on core.execution (path, idempotency_key) where idempotency_key is not null;
create index execution_newest on core.execution (start_time desc, execution_id desc);
create index execution_status on core.execution (status, start_time desc);
create index execution_catalog on core.execution (catalog_id, start_time desc);
create index execution_path on core.execution (path collate "C", start_time desc);
create index execution_parent on core.execution (parent_execution_id);
create index execution_root on core.execution (root_execution_id);
create index execution_with_inbox on core.execution (execution_id) where has_inbox;
create index execution_running on core.execution (start_time, execution_id) where status = 'running';
create index execution_wake on core.execution (next_wake_at) where next_wake_at is not null;
create index execution_labels on core.execution using gin (labels);

create function core.refuse_resurrection() returns trigger language plpgsql as $$
begin
  raise exception 'execution % has ended: its status, end, result, error and state cannot change', old.execution_id
    using errcode = 'restrict_violation';
end
$$;

create trigger execution_terminal before update on core.execution for each row
  when (old.status <> 'running' and (new.status, new.end_time, new.result, new.error, new.state)
    is distinct from (old.status, old.end_time, old.result, old.error, old.state))
  execute function core.refuse_resurrection();

create table core.command (
  execution_id bigint not null,
  command_id bigint not null,
  event_id bigint not null,
  catalog_id bigint not null,
  -- Compared by bytes, so that the commands of one loop are a range.
  command_key text collate "C" not null,
  step_name text not null,
  tool_kind text not null,
  pool text not null,
  activation int,
  iteration_index int,
  status text not null default 'PENDING',
  attempt int not null default 0 check (attempt >= 0),
  max_attempts int not null default 5,
  priority smallint not null default 0,
  worker_id text,
  claim_id text,
  claimed_at timestamptz,
  started_at timestamptz,
  heartbeat_at timestamptz,
  completed_at timestamptz,
  parked_on bigint,
  next_wake_at timestamptz,
  republished_at timestamptz,
  republish_count int not null default 0,
  context jsonb,
  context_ref text,
  error text,
  latest_event_id bigint,
  meta jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  constraint command_pkey primary key (execution_id, command_id),
  constraint command_status check (status in ('PENDING', 'CLAIMED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED')),
  constraint command_pending check (status <> 'PENDING' or worker_id is null),
  constraint command_held check (
    status not in ('CLAIMED', 'RUNNING') or (worker_id is not null and claimed_at is not null and attempt >= 1)),
  constraint command_wake check (status not in ('PENDING', 'CLAIMED', 'RUNNING') or next_wake_at is not null),
  constraint command_end check ((status in ('COMPLETED', 'FAILED', 'CANCELLED')) = (completed_at is not null)),
  constraint command_parked check (parked_on is null or status = 'RUNNING')
) partition by range (execution_id);

create unique index command_key on core.command (execution_id, command_key);
create unique index command_event on core.command (execution_id, event_id);
create index command_by_id on core.command (command_id);
create index command_pending on core.command (pool, priority desc, command_id) where status = 'PENDING';
create index command_held on core.command (worker_id) where status in ('CLAIMED', 'RUNNING');
create index command_wake on core.command (next_wake_at) where status in ('PENDING', 'CLAIMED', 'RUNNING');
create index command_parked on core.command (parked_on) where parked_on is not null;

create table core.result (
  execution_id bigint not null,
  result_id bigint not null,
  ref text not null,
  name text not null,
  command_id bigint,
  scope text not null,
  store text not null,
  data bytea,
  encoding text not null default 'json' check (encoding in ('json', 'gzip')),
  bytes bigint not null check (bytes >= 0),
  sha256 text not null,
  media_type text not null,
  summary jsonb,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  accessed_at timestamptz,
  access_count int not null default 0,
  constraint result_pkey primary key (execution_id, result_id)
) partition by range (execution_id);

create unique index result_ref on core.result (execution_id, ref);
create unique index result_content on core.result (execution_id, name, sha256);
create index result_expiry on core.result (expires_at) where expires_at is not null;

create table core.transient (
  execution_id bigint not null,
  var_name text not null,
  var_type text not null check (var_type in ('user_defined', 'step_result', 'computed', 'iterator_state')),
  var_value jsonb,
  source_step text,
  scope text not null default 'execution' check (scope in ('step', 'execution', 'workflow', 'permanent')),
  created_at timestamptz not null default clock_timestamp(),
  accessed_at timestamptz,
  access_count int not null default 0,
  expires_at timestamptz,
  primary key (execution_id, var_name)
);

create index transient_expiry on core.transient (expires_at) where expires_at is not null;

-- The partitions of the three tables with equal bounds, from the last one there is until `ahead` lie empty beyond the
-- ids given out so far. Returns how many were made. Attaching waits for nobody longer than two seconds.
create function core.ensure_partitions(span bigint, ahead int) returns int language plpgsql
set lock_timeout = '2s' as $$
declare
  lower_bound bigint;
  made int := 0;
  given_out bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('core.partitions', 0));
  select case when is_called then last_value else 0 end into given_out from core.id_seq;
  select coalesce(max((regexp_match(pg_get_expr(child.relpartbound, child.oid), 'TO \(''?(\d+)''?\)'))[1]::bigint), 0)
  into lower_bound
  from pg_inherits inherits join pg_class child on child.oid = inherits.inhrelid
  where inherits.inhparent = 'core.event'::regclass;
  while lower_bound < (given_out / span + 1 + ahead) * span loop
    execute format(
      'create table core.event_p%s partition of core.event for values from (%s) to (%s) with (
         autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_insert_threshold = 50000,
         autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 5000)',
      lower_bound, lower_bound, lower_bound + span);
    execute format(
      'create table core.command_p%s partition of core.command for values from (%s) to (%s) with (
         fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
         autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 5000)',
      lower_bound, lower_bound, lower_bound + span);
    execute format(
      'create table core.result_p%s partition of core.result for values from (%s) to (%s)',
      lower_bound, lower_bound, lower_bound + span);
    lower_bound := lower_bound + span;
    made := made + 1;
  end loop;
  return made;
end
$$;

create table core.event_default partition of core.event default;
create table core.command_default partition of core.command default with (fillfactor = 60);
create table core.result_default partition of core.result default;

select core.ensure_partitions(4194304, 2);

-- Ends a flush whose expectation does not hold: every row named must have been written.
create function core.require_all(expected bigint[], written bigint[], code text) returns void language plpgsql as $$
begin
  if cardinality(written) <> cardinality(expected) then
    raise exception 'rows are not as they were read'
      using errcode = code,
        detail = (select string_agg(id::text, ',') from unnest(expected) as id where id <> all (written));
  end if;
end
$$;

-- For operators: ends a run as the log ends it. The server folds the row with its next look at the execution.
-- Returns the number of the event, or null when the execution has ended already.
create function core.cancel_execution(id bigint, reason text default 'Cancelled by SQL') returns bigint
language plpgsql as $$
declare
  chosen core.execution;
  last_id bigint;
  now_at timestamptz;
begin
  perform pg_advisory_xact_lock(hashtextextended('core.execution', id));
  select * into chosen from core.execution where execution_id = id;
  if not found then
    raise exception 'execution % does not exist', id using errcode = 'no_data_found';
  end if;
  if chosen.status <> 'running' or exists (
    select from core.event where execution_id = id
      and event_type in ('playbook.completed', 'playbook.failed', 'execution.cancelled')) then
    return null;
  end if;
  select max(event_id) into last_id from core.event where execution_id = id;
  now_at := date_trunc('milliseconds', clock_timestamp());
  insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_id, node_name, node_type,
    parent_execution_id, duration, context, error, created_at)
  values (id, last_id + 1, last_id + 1, chosen.catalog_id, 'execution.cancelled', 'cancelled', chosen.path, chosen.path,
    'execution', chosen.parent_execution_id,
    greatest(0, extract(epoch from now_at - chosen.start_time) * 1000),
    jsonb_build_object('reason', reason, 'cancelled_by', 'sql',
      'cancelled_at', to_char(now_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
    reason, now_at);
  perform pg_notify('callboard', json_build_object('topic', 'executions',
    'hints', json_build_array(json_build_object('execution_id', id, 'event_id', last_id + 1)))::text);
  return last_id + 1;
end
$$;
