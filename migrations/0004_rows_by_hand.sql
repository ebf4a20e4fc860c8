-- what: the log completes rows that operators write by hand, and keychain rows have a type and a last access from the start.
-- why: somebody who ends a run by SQL knows the columns of the interface; what only this service keeps beside them
--      (the cause of an event, the name of its node) follows from the row itself.
-- locks: briefly, the log and the keychain; the keychain is small.
-- breaking: no

create function core.complete_event() returns trigger language plpgsql as $$
begin
  new.cause_id := coalesce(new.cause_id, new.event_id);
  new.node_name := coalesce(
    new.node_name,
    (select path from core.execution where execution_id = new.execution_id));
  return new;
end
$$;

create trigger event_complete before insert on core.event for each row
  when (new.cause_id is null or new.node_name is null)
  execute function core.complete_event();

update core.keychain set credential_type = cache_type where credential_type is null;
alter table core.keychain alter column credential_type set not null;
alter table core.keychain alter column accessed_at set default clock_timestamp();
