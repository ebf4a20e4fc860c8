/** One execution: who it is and how it stands in the head, and one tab for each way of looking at it. */
import { useState } from 'preact/hooks';
import { StatechartTab } from '../chart/statechart-tab.tsx';
import { segments, to } from '../core/router.ts';
import type { Execution } from '../core/wire.ts';
import { BulkCancel } from '../execution/bulk-cancel.tsx';
import { Children } from '../execution/children.tsx';
import { EventsTab } from '../execution/events-tab.tsx';
import { GraphTab } from '../execution/graph-tab.tsx';
import { Summary } from '../execution/summary.tsx';
import { Timeline } from '../execution/timeline.tsx';
import { type FollowedExecution, useExecution } from '../execution/use-execution.ts';
import { Icon } from '../parts/icons.tsx';
import { Lasting, When } from '../parts/instant.tsx';
import { PageHead, Tabs } from '../parts/page.tsx';
import { Failed, Loading } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { RunDialog } from '../playbook/run-dialog.tsx';

const TABS: readonly (readonly [string, string])[] = [
  ['summary', 'Summary'],
  ['graph', 'Graph'],
  ['statechart', 'Statechart'],
  ['timeline', 'Timeline'],
  ['events', 'Events'],
  ['children', 'Children'],
];

export function ExecutionPage() {
  const [, given = '', tab = 'summary'] = segments.value;
  const id = Number(given);
  const followed = useExecution(id);
  const { row, resource } = followed;
  const [open, setOpen] = useState<{ readonly again: string | null } | 'cancel' | null>(null);
  if (row === null) {
    return (
      <>
        <PageHead title={`Execution ${given}`} crumbs={<a href={to.executions}>Executions</a>} />
        {resource.error === null ? (
          <Loading what="the execution" />
        ) : (
          <Failed error={resource.error} retry={resource.reload} />
        )}
      </>
    );
  }
  return (
    <>
      <PageHead
        title={row.path}
        crumbs={<Crumbs row={row} />}
        beside={
          <>
            <StatusBadge status={row.status} />
            <Liveness followed={followed} />
          </>
        }
        lead={
          <>
            Version {row.version} · started <When at={row.start_time} /> ·{' '}
            {row.status === 'running' ? 'running for' : 'took'} <Lasting from={row.start_time} to={row.end_time} />
          </>
        }
      >
        {row.status === 'running' && (
          <button type="button" class="button danger" onClick={() => setOpen('cancel')}>
            <Icon name="stop" size={14} /> Cancel…
          </button>
        )}
        <button type="button" class="button" onClick={() => setOpen({ again: null })}>
          <Icon name="again" size={14} /> Run again…
        </button>
      </PageHead>
      <Tabs
        label="Ways of looking at this execution"
        current={tab}
        tabs={TABS.map(([each, name]) => ({ id: each, name, href: to.execution(id, each) }))}
      />
      <Tab tab={tab} row={row} followed={followed} onAgain={(step) => setOpen({ again: step })} />
      {open !== null && open !== 'cancel' && (
        <RunDialog
          path={row.path}
          version={row.version}
          workload={row.workload}
          rerunOf={{ execution: row, fromStep: open.again }}
          onClose={() => setOpen(null)}
        />
      )}
      {open === 'cancel' && <BulkCancel ids={[id]} onClose={() => setOpen(null)} onDone={resource.reload} />}
    </>
  );
}

function Tab({
  tab,
  row,
  followed,
  onAgain,
}: {
  tab: string;
  row: Execution;
  followed: FollowedExecution;
  /** Somebody wants to run it again from a step. */
  onAgain: (step: string) => void;
}) {
  switch (tab) {
    case 'graph':
      return <GraphTab row={row} events={followed.events.value} onAgain={onAgain} />;
    case 'statechart':
      return <StatechartTab row={row} events={followed.events.value} />;
    case 'timeline':
      return <Timeline row={row} events={followed.events.value} />;
    case 'events':
      return <EventsTab row={row} last={Math.max(followed.events.value, row.last_event_id)} />;
    case 'children':
      return <Children row={row} />;
    default:
      return <Summary row={row} events={followed.events.value} onAgain={onAgain} />;
  }
}

function Crumbs({ row }: { row: Execution }) {
  return (
    <>
      <a href={to.executions}>Executions</a> / #{row.execution_id}
      {row.parent_execution_id !== null && (
        <>
          {' '}
          · child of <a href={to.execution(row.parent_execution_id)}>#{row.parent_execution_id}</a>
        </>
      )}
      {row.rerun_of !== null && (
        <>
          {' '}
          · again after <a href={to.execution(row.rerun_of)}>#{row.rerun_of}</a>
        </>
      )}
    </>
  );
}

function Liveness({ followed }: { followed: FollowedExecution }) {
  switch (followed.liveness.value) {
    case 'live':
      return <span class="badge plain tone-running live">live</span>;
    case 'polling':
      return (
        <span
          class="badge plain tone-cancelled"
          title="The stream is not available; looked up every two seconds instead"
        >
          looked up every 2 s
        </span>
      );
    default:
      return null;
  }
}
