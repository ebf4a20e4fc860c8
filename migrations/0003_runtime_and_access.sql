-- what: workers, leases, batch requests, schedules, sessions, tokens and the audit trail.
-- why: what the service needs to know about its surroundings; none of it is part of an execution's log.
-- locks: creates tables only.
-- breaking: no

-- No index on heartbeat: its updates stay in the page.
create table core.runtime (
  runtime_id bigint primary key,
  name text not null,
  kind text not null check (kind in ('worker_pool', 'server_api', 'broker')),
  uri text,
  status text not null,
  labels jsonb not null default '{}',
  capabilities jsonb not null default '{}',
  capacity int not null default 1,
  pools text[] not null default '{}',
  tool_kinds text[] not null default '{}',
  runtime jsonb,
  instance text,
  pid int,
  hostname text,
  version text,
  meta jsonb not null default '{}',
  registered_at timestamptz not null default clock_timestamp(),
  heartbeat timestamptz not null default clock_timestamp(),
  heartbeat_seconds int not null default 15,
  offline_after_seconds int not null default 60,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  constraint runtime_name unique (kind, name)
) with (fillfactor = 50);

-- The token grows by one with each take-over; a write made under a lease carries it and fails when it is old.
create table core.lease (
  name text primary key,
  holder text not null,
  token bigint not null check (token >= 1),
  acquired_at timestamptz not null,
  renewed_at timestamptz not null,
  expires_at timestamptz not null
) with (fillfactor = 50);

create function core.refuse_older_lease() returns trigger language plpgsql as $$
begin
  raise exception 'the token of lease % only grows', old.name using errcode = 'restrict_violation';
end
$$;

create trigger lease_token_grows before update on core.lease for each row when (new.token < old.token)
  execute function core.refuse_older_lease();

create table core.batch_request (
  request_id bigint primary key,
  execution_id bigint not null,
  idempotency_key text,
  body_hash bytea not null,
  state text not null check (state in ('accepted', 'processing', 'completed', 'failed')),
  error_code text,
  message text,
  event_ids bigint[] not null default '{}',
  event_count int not null default 0,
  commands_generated int not null default 0,
  worker_id text,
  deadline_at timestamptz,
  queue_wait_ms double precision,
  timings jsonb,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  constraint batch_failure check ((state = 'failed') = (error_code is not null))
) with (fillfactor = 70);

create unique index batch_idempotency on core.batch_request (execution_id, idempotency_key)
  where idempotency_key is not null;
create index batch_unfinished on core.batch_request (state, request_id) where state in ('accepted', 'processing');

create table core.schedule (
  schedule_id bigint primary key,
  name text not null,
  playbook_path text not null,
  playbook_version int,
  resource_kind text not null default 'playbook',
  cron text,
  interval_seconds double precision check (interval_seconds > 0),
  run_at timestamptz,
  timezone text not null default 'UTC',
  workload jsonb not null default '{}',
  enabled boolean not null default true,
  overlap text not null default 'allow' check (overlap in ('allow', 'skip', 'cancel_previous')),
  catch_up text not null default 'none' check (catch_up in ('none', 'last', 'all')),
  next_run_at timestamptz,
  last_run_at timestamptz,
  last_status text,
  last_execution_id bigint,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  constraint schedule_one_rhythm check (num_nonnulls(cron, interval_seconds, run_at) = 1)
);

create index schedule_due on core.schedule (next_run_at) where enabled;

create table core.test_suite (
  suite_id text primary key,
  playbook_path text not null,
  tests jsonb not null,
  metadata jsonb not null default '{}',
  updated_at timestamptz not null default clock_timestamp()
);

create table core.session (
  token_hash bytea primary key,
  subject text not null,
  email text,
  name text,
  roles text[] not null default '{}',
  created_at timestamptz not null default clock_timestamp(),
  last_seen_at timestamptz not null default clock_timestamp(),
  idle_expires_at timestamptz not null,
  expires_at timestamptz not null,
  revoked_at timestamptz,
  ip text,
  user_agent text
);

create index session_expiry on core.session (expires_at);
create index session_subject on core.session (subject);

create table core.api_token (
  name text primary key,
  token_hash bytea not null unique,
  role text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz
);

create table core.audit (
  audit_id bigint primary key,
  at timestamptz not null default clock_timestamp(),
  actor text,
  role text,
  action text not null,
  target text,
  outcome text not null,
  request_id text,
  ip text,
  detail jsonb not null default '{}'
);

create index audit_at on core.audit (at desc);
create index audit_action on core.audit (action, at desc);
create index audit_target on core.audit (target, at desc);

create trigger audit_append_only before update or delete on core.audit for each row
  execute function core.refuse_change();
