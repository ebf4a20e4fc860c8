/** Schedules: what starts by itself, when it did and when it will. Pausing keeps one, deleting asks first. */
import { useState } from 'preact/hooks';
import { get, post, put, remove } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { to } from '../core/router.ts';
import type { Schedule, StartAnswer } from '../core/wire.ts';
import { Confirm } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { When } from '../parts/instant.tsx';
import { More, ROWS_SHOWN } from '../parts/more.tsx';
import { PageHead } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { say } from '../parts/toasts.tsx';
import { rhythmText } from '../schedule/rhythm.ts';
import { ScheduleDialog } from '../schedule/schedule-dialog.tsx';

const LOOK_AGAIN_MS = 5_000;

type Open = { readonly kind: 'new' } | { readonly kind: 'change' | 'delete'; readonly schedule: Schedule };

export function Schedules() {
  const [open, setOpen] = useState<Open | null>(null);
  const list = useResource(
    'schedules',
    (signal) => get<{ readonly items: readonly Schedule[] }>('/api/schedules', {}, signal),
    () => LOOK_AGAIN_MS,
  );
  const close = (): void => setOpen(null);
  const act = (work: Promise<string>): void => {
    work.then(
      (words) => {
        say(words);
        list.reload();
      },
      (error: unknown) => say(error instanceof Error ? error.message : String(error), true),
    );
  };
  return (
    <>
      <PageHead title="Schedules" lead="What starts by itself: at times of a calendar, again and again, or once.">
        <button type="button" class="button primary" onClick={() => setOpen({ kind: 'new' })}>
          <Icon name="plus" size={14} /> New schedule
        </button>
      </PageHead>
      <section class="card" aria-label="Schedules">
        {list.error !== null && list.data === null ? (
          <Failed error={list.error} retry={list.reload} />
        ) : list.data === null ? (
          <Loading what="schedules" />
        ) : list.data.items.length === 0 ? (
          <Empty icon="clock" title="Nothing is planned">
            <p>A schedule starts a playbook every night, every five minutes, or at one moment.</p>
          </Empty>
        ) : (
          <ScheduleTable
            items={list.data.items}
            onOpen={setOpen}
            onPause={(schedule) => act(pause(schedule))}
            onTrigger={(schedule) => act(trigger(schedule))}
          />
        )}
      </section>
      {open?.kind === 'new' && <ScheduleDialog schedule={null} onClose={close} onSaved={list.reload} />}
      {open?.kind === 'change' && <ScheduleDialog schedule={open.schedule} onClose={close} onSaved={list.reload} />}
      {open?.kind === 'delete' && (
        <Confirm
          title={`Delete ${open.schedule.name}?`}
          act="Delete it"
          onClose={close}
          onAct={async () => {
            await remove(`/api/schedules/${open.schedule.schedule_id}`);
            say(`Deleted ${open.schedule.name}`);
            list.reload();
          }}
        >
          <p>
            It starts {open.schedule.path} no more. What it has started goes on, and its executions stay. To keep it for
            later, pause it instead.
          </p>
        </Confirm>
      )}
    </>
  );
}

interface TableProps {
  readonly items: readonly Schedule[];
  readonly onOpen: (open: Open) => void;
  readonly onPause: (schedule: Schedule) => void;
  readonly onTrigger: (schedule: Schedule) => void;
}

function ScheduleTable({ items, onOpen, onPause, onTrigger }: TableProps) {
  return (
    <div class="scroll-x">
      <table class="list">
        <thead>
          <tr>
            <th>Name</th>
            <th>When</th>
            <th>Next</th>
            <th>Last</th>
            <th>
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {items.slice(0, ROWS_SHOWN).map((each) => (
            <tr key={each.schedule_id}>
              <td class="break">
                {each.name}
                <span class="sub">
                  <a href={to.playbook(each.path)}>{each.path}</a>
                </span>
              </td>
              <td>{rhythmText(each)}</td>
              <td>{each.enabled ? <When at={each.next_run_at} /> : <span class="badge plain">paused</span>}</td>
              <td>
                <Last schedule={each} />
              </td>
              <td class="number">
                <button
                  type="button"
                  class="button quiet tiny"
                  aria-label={`Run now: ${each.name}`}
                  onClick={() => onTrigger(each)}
                >
                  <Icon name="play" size={14} /> Run now
                </button>
                <button
                  type="button"
                  class="button quiet tiny"
                  aria-label={`${each.enabled ? 'Pause' : 'Resume'} ${each.name}`}
                  onClick={() => onPause(each)}
                >
                  {each.enabled ? 'Pause' : 'Resume'}
                </button>
                <button
                  type="button"
                  class="button quiet tiny"
                  aria-label={`Change ${each.name}`}
                  onClick={() => onOpen({ kind: 'change', schedule: each })}
                >
                  <Icon name="edit" size={14} />
                </button>
                <button
                  type="button"
                  class="button quiet tiny"
                  aria-label={`Delete ${each.name}`}
                  onClick={() => onOpen({ kind: 'delete', schedule: each })}
                >
                  <Icon name="trash" size={14} />
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <More total={items.length} hint="The API lists them all." />
    </div>
  );
}

function Last({ schedule }: { schedule: Schedule }) {
  const { last_run_at, last_execution_id, last_status } = schedule;
  if (last_run_at === null) return <span class="soft">not yet</span>;
  return (
    <>
      {last_status !== null && <StatusBadge status={last_status} />} <When at={last_run_at} />
      {last_execution_id !== null && (
        <span class="sub">
          <a href={to.execution(last_execution_id)}>execution {last_execution_id}</a>
        </span>
      )}
    </>
  );
}

async function pause({ schedule_id, name, enabled }: Schedule): Promise<string> {
  await put(`/api/schedules/${schedule_id}`, { enabled: !enabled });
  return enabled ? `${name} is paused` : `${name} goes on`;
}

async function trigger({ schedule_id, name }: Schedule): Promise<string> {
  const { execution_id } = await post<StartAnswer>(`/api/schedules/${schedule_id}/trigger`);
  return `${name} is started: execution ${execution_id}`;
}
