-- what: ids, the catalog of documents, credentials and the keychain.
-- why: every other table refers to a catalog entry; secrets lie encrypted and the schema refuses anything else.
-- locks: creates tables only.
-- breaking: no

-- A process takes a block with one nextval and counts v … v+999 in memory.
create sequence core.id_seq increment 1000 minvalue 1 maxvalue 9007199254740000 start 1;

create function core.refuse_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and current_setting('callboard.retention', true) = 'on' then
    return old;
  end if;
  raise exception '% on core.% is refused: its rows are facts', lower(tg_op), tg_table_name
    using errcode = 'restrict_violation';
end
$$;

create table core.resource (
  name text primary key,
  meta jsonb not null default '{}'
);

insert into core.resource (name, meta) values
  ('playbook', '{"description": "A workflow that can be executed", "executable": true}'),
  ('agent', '{"description": "A workflow offered to callers as a tool", "executable": true}'),
  ('mcp', '{"description": "A tool server", "executable": false}'),
  ('credential', '{"description": "A description of a credential", "executable": false}'),
  ('memory', '{"description": "Stored knowledge", "executable": false}'),
  ('subscription', '{"description": "An interest in outside events", "executable": false}');

create table core.catalog (
  catalog_id bigint primary key,
  path text not null
    check (path ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*){0,15}$' and octet_length(path) <= 255),
  version int not null check (version >= 1),
  kind text not null references core.resource (name),
  content text not null,
  payload jsonb not null,
  layout jsonb,
  meta jsonb not null default '{}',
  sha256 bytea not null,
  created_by text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  unique (path, version)
);

create index catalog_current on core.catalog (path, version desc) where archived_at is null;

create function core.refuse_catalog_change() returns trigger language plpgsql as $$
begin
  raise exception 'a catalog version is immutable: content, payload, kind, path and version of % cannot change', old.catalog_id
    using errcode = 'restrict_violation';
end
$$;

create trigger catalog_immutable before update on core.catalog for each row
  when ((new.catalog_id, new.path, new.version, new.kind, new.content, new.payload)
    is distinct from (old.catalog_id, old.path, old.version, old.kind, old.content, old.payload))
  execute function core.refuse_catalog_change();

create table core.credential (
  id bigint primary key,
  name text not null unique,
  type text not null,
  data_encrypted text not null check (data_encrypted like 'cb1.%'),
  schema jsonb,
  meta jsonb,
  tags text[] not null default '{}',
  description text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);

create index credential_type on core.credential (type);
create index credential_tags on core.credential using gin (tags);

create table core.keychain (
  cache_key text primary key check (cache_key ~ '^[^:]+:[0-9]+:(global|[0-9]+|shared:[0-9]+)$'),
  keychain_name text not null,
  catalog_id bigint not null references core.catalog (catalog_id),
  credential_type text,
  cache_type text not null check (cache_type in ('secret', 'token')),
  scope_type text not null check (scope_type in ('local', 'global', 'shared')),
  execution_id bigint,
  parent_execution_id bigint,
  root_execution_id bigint,
  data_encrypted text not null check (data_encrypted like 'cb1.%'),
  schema jsonb,
  expires_at timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  accessed_at timestamptz,
  access_count int not null default 0 check (access_count >= 0),
  auto_renew boolean not null default false,
  renew_config jsonb,
  renewal_until timestamptz,
  renewal_by text,
  check (scope_type = 'global' or execution_id is not null)
);

create index keychain_name on core.keychain (keychain_name, catalog_id);
create index keychain_execution on core.keychain (execution_id);
create index keychain_root on core.keychain (root_execution_id);
create index keychain_renewal on core.keychain (expires_at) where auto_renew;
create index keychain_expiry on core.keychain (expires_at) where not auto_renew;

create table core.keychain_event (
  cache_key text not null,
  seq bigint not null check (seq >= 1),
  event_type text not null check (event_type in ('entry.stored', 'entry.renewed', 'entry.removed')),
  at timestamptz not null default clock_timestamp(),
  context jsonb not null default '{}',
  primary key (cache_key, seq)
);

create index keychain_event_at on core.keychain_event (at);

create trigger keychain_event_append_only before update or delete on core.keychain_event for each row
  execute function core.refuse_change();

create table core.encryption_key (
  kid text primary key,
  canary text not null,
  created_at timestamptz not null default clock_timestamp(),
  retired_at timestamptz
);
