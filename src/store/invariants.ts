/**
 * The laws of api 3.6 as statements: each row they give is an offender. On a large database they look at executions that run
 * and at the newest ones; what is checked of the log is what rows can say, the fold itself is compared by actors/invariants.ts.
 */
import type { InvariantStore, Offenders } from '../../actors/invariants.ts';
import { onlyRow } from './only-row.ts';
import type { Sql } from './pool.ts';
import { OPEN } from './rows.ts';

export function createInvariantStore(pool: Sql): InvariantStore {
  return {
    async check(name) {
      const statement = Object.hasOwn(STATEMENTS, name) ? STATEMENTS[name] : undefined;
      if (statement === undefined) throw new Error(`there is no law of that name: ${name}`);
      return onlyRow(await pool.rows<Offenders>(counted(statement)));
    },
    names: () => Object.keys(STATEMENTS),
    async newest(limit) {
      const rows = await pool.rows<{ id: number }>(
        `(select execution_id as id from core.execution where status = 'running' order by start_time desc limit $1)
         union
         (select execution_id from core.execution order by start_time desc limit $1)`,
        [limit],
      );
      return rows.map((row) => row.id);
    },
  };
}

const SAMPLE = 10;
const CHOSEN_MAX = 5_000;

function counted(statement: string): string {
  return `
with chosen as materialized (
  (select * from core.execution where status = 'running' order by start_time limit ${CHOSEN_MAX})
  union
  (select * from core.execution order by start_time desc limit ${CHOSEN_MAX})
), offender as (
  ${statement}
)
select (select count(*) from offender) as count,
  coalesce((select json_agg(id) from (select id::text as id from offender limit ${SAMPLE}) as few), '[]') as sample`;
}

const TERMINAL = `event_type in ('playbook.completed', 'playbook.failed', 'execution.cancelled')`;

const STATEMENTS: Readonly<Record<string, string>> = {
  ids: `
    select chosen.execution_id as id
    from chosen join core.event using (execution_id)
    group by chosen.execution_id, chosen.last_event_id
    having count(*) <> max(event_id) or min(event_id) <> 1 or max(event_id) < chosen.last_event_id`,
  started: `
    select execution_id as id
    from chosen
    where (select array_agg(event_id) from core.event
      where event.execution_id = chosen.execution_id and event_type = 'execution.started') is distinct from array[1::bigint]`,
  one_terminal: `
    select execution_id as id
    from chosen
    where (select count(*) from core.event where event.execution_id = chosen.execution_id and ${TERMINAL})
      <> case when status = 'running' then 0 else 1 end`,
  after_terminal: `
    select distinct chosen.execution_id as id
    from chosen
      join core.event as ending on ending.execution_id = chosen.execution_id and ending.${TERMINAL}
      join core.event as later on later.execution_id = chosen.execution_id and later.event_id > ending.event_id
        and later.event_type in ('command.issued', 'step.enter', 'ctx.updated')`,
  pair: `
    select chosen.execution_id as id
    from chosen
      join core.event as ending on ending.execution_id = chosen.execution_id
        and ending.event_type in ('playbook.completed', 'playbook.failed')
    where not exists (
      select from core.event as before
      where before.execution_id = ending.execution_id and before.event_id = ending.event_id - 1
        and before.event_type = replace(ending.event_type, 'playbook.', 'workflow.'))`,
  projection: `
    select execution_id as id
    from chosen
    where open_commands <> (
        select count(*) from core.command where command.execution_id = chosen.execution_id and ${OPEN})
      or status <> coalesce((
        select case event_type when 'playbook.completed' then 'completed' when 'playbook.failed' then 'failed'
          else 'cancelled' end
        from core.event where event.execution_id = chosen.execution_id and ${TERMINAL}), 'running')
    union
    select command.execution_id
    from chosen
      join core.command using (execution_id)
      left join core.event as closing on closing.execution_id = command.execution_id
        and closing.command_id = command.command_id and closing.closes
    where command.status in ('COMPLETED', 'FAILED') and closing.event_id is null
      or command.status in ('PENDING', 'CLAIMED') and closing.event_id is not null`,
  settled_once: `
    select command.execution_id as id
    from chosen
      join core.command using (execution_id)
      left join core.event on event.execution_id = command.execution_id and event.command_id = command.command_id
        and (event.event_type = 'command.issued' or event.closes)
    group by command.execution_id, command.command_id
    having count(*) filter (where event.event_type = 'command.issued') <> 1 or count(*) filter (where event.closes) > 1
    union
    select command.execution_id
    from chosen join core.command using (execution_id)
    where chosen.status <> 'running' and command.${OPEN}`,
  wake: `
    select execution_id as id
    from chosen
    where status = 'running' and not has_inbox and next_wake_at is null
      and updated_at < clock_timestamp() - interval '1 second'
      and not exists (
        select from core.command
        where command.execution_id = chosen.execution_id and command.${OPEN} and command.next_wake_at is not null)`,
  claim: `
    select command.execution_id as id
    from chosen
      join core.command using (execution_id)
      left join core.event on event.execution_id = command.execution_id and event.command_id = command.command_id
        and event.event_type = 'command.claimed'
    group by command.execution_id, command.command_id, command.attempt
    having count(event.event_id) <> command.attempt or count(distinct event.attempt) <> command.attempt
      or coalesce(max(event.attempt), 0) <> command.attempt
      or bool_or(event.event_id is not null and event.worker_id is null)`,
  batch: `
    select distinct chosen.execution_id as id
    from chosen
      join core.event as accepted on accepted.execution_id = chosen.execution_id
        and accepted.event_type = 'batch.accepted'
      left join core.batch_request as request
        on request.request_id = (accepted.result -> 'context' ->> 'request_id')::bigint
    where request.request_id is null
      or request.state in ('completed', 'failed') and not exists (
        select from core.event as done
        where done.execution_id = accepted.execution_id and done.event_id > accepted.event_id
          and done.event_type in ('batch.completed', 'batch.failed')
          and done.result -> 'context' ->> 'request_id' = request.request_id::text)`,
  keychain: `
    select cache_key as id
    from core.keychain
      left join core.execution as owner on owner.execution_id = keychain.execution_id
      left join core.execution as root on root.execution_id = keychain.root_execution_id
    where scope_type = 'local' and owner.status <> 'running' or scope_type = 'shared' and root.status <> 'running'
    union
    select cache_key
    from core.keychain
    where coalesce((
      select event_type from core.keychain_event
      where keychain_event.cache_key = keychain.cache_key
      order by seq desc limit 1), 'entry.removed') = 'entry.removed'`,
  sealed: `
    select 'credential ' || id as id
    from core.credential
    where not exists (
      select from core.encryption_key where kid = split_part(data_encrypted, '.', 2) and retired_at is null)
    union
    select 'keychain ' || cache_key
    from core.keychain
    where not exists (
      select from core.encryption_key where kid = split_part(data_encrypted, '.', 2) and retired_at is null)`,
  // The trigger refuses a smaller token; what can be seen of it afterwards is that it stands.
  lease: `
    select 'lease_token_grows' as id
    where not exists (
      select from pg_trigger
      where tgrelid = 'core.lease'::regclass and tgname = 'lease_token_grows' and tgenabled <> 'D')
    union
    select name from core.lease where token < 1 or renewed_at < acquired_at`,
};
