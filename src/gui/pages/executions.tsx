/** The list of executions. All of its filters are in the address; what is chosen for a bulk act is shown before it happens. */
import { useState } from 'preact/hooks';
import { get, getWithHeaders, type Query } from '../core/api.ts';
import { learn } from '../core/executions.ts';
import { savedViews } from '../core/preferences.ts';
import { useResource } from '../core/resource.ts';
import { query, setQuery, to } from '../core/router.ts';
import type { DashboardStats, Execution } from '../core/wire.ts';
import { BulkCancel } from '../execution/bulk-cancel.tsx';
import { ExecutionTable } from '../execution/execution-table.tsx';
import { Icon } from '../parts/icons.tsx';
import { PageHead } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';

const PAGE_SIZE = 50;
const LIVE_MS = 2_000;
const QUIET_MS = 10_000;
const COUNT_MS = 5_000;
const STATUSES = ['running', 'completed', 'failed', 'cancelled'] as const;
const FILTERS = [
  'status',
  'path',
  'q',
  'error',
  'label',
  'started',
  'min_duration_seconds',
  'roots_only',
  'order',
  'page',
] as const;
const FAILED_TODAY = 'status=failed&started=24h';
const PRESETS: readonly (readonly [string, string])[] = [
  ['All', ''],
  ['In flight', 'status=running'],
  ['Failed today', FAILED_TODAY],
  ['Slow', 'order=-duration'],
];
const SPANS: Readonly<Record<string, number>> = { '1h': 3_600_000, '24h': 86_400_000, '7d': 604_800_000 };

export function Executions() {
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const [cancelling, setCancelling] = useState(false);
  const params = query.value;
  const key = params.toString();
  const page = Math.max(1, Number(params.get('page') ?? 1) || 1);
  const list = useResource(
    `executions ${key}`,
    async (signal) => {
      const { body, headers } = await getWithHeaders<readonly Execution[]>(
        '/api/executions',
        filtersOf(params, page),
        signal,
      );
      for (const each of body) learn(each);
      return {
        ids: body.map((each) => each.execution_id),
        total: headers.get('x-total-count') ?? '',
        next: headers.get('link') !== null,
        running: body.some((each) => each.status === 'running'),
      };
    },
    (data) => (data === null || data.running ? LIVE_MS : QUIET_MS),
  );
  const narrowed = FILTERS.some((each) => each !== 'order' && each !== 'page' && params.has(each));
  const choosing = {
    chosen,
    onChoose: (ids: readonly number[], on: boolean) => {
      const next = new Set(chosen);
      for (const id of ids) {
        if (on) next.add(id);
        else next.delete(id);
      }
      setChosen(next);
    },
  };
  return (
    <>
      <PageHead title="Executions" lead="Every run of every playbook, newest first.">
        {chosen.size > 0 && (
          <button type="button" class="button danger" onClick={() => setCancelling(true)}>
            <Icon name="stop" size={14} /> Cancel {chosen.size}…
          </button>
        )}
      </PageHead>
      <div class="stack">
        <Views />
        <Filters />
        <section class="card" aria-label="Executions">
          {list.data === null && list.error !== null ? (
            <Failed error={list.error} retry={list.reload} />
          ) : list.data === null ? (
            <Loading what="executions" />
          ) : list.data.ids.length === 0 ? (
            <Empty icon="runs" title={narrowed ? 'No executions match these filters' : 'Nothing has run yet'}>
              {narrowed ? (
                <a class="button" href={to.executions}>
                  Show all
                </a>
              ) : (
                <a class="button primary" href={to.playbooks}>
                  Choose a playbook to run
                </a>
              )}
            </Empty>
          ) : (
            <ExecutionTable ids={list.data.ids} choosing={choosing} />
          )}
        </section>
        {list.data !== null && list.data.ids.length > 0 && (
          <nav class="row between" aria-label="Pages">
            <span class="soft">
              {list.data.total} {list.data.total === '1' ? 'execution' : 'executions'}
            </span>
            <span class="row">
              <button
                type="button"
                class="button"
                disabled={page === 1}
                onClick={() => setQuery({ page: page === 2 ? null : String(page - 1) }, true)}
              >
                <Icon name="left" size={14} /> Newer
              </button>
              <button
                type="button"
                class="button"
                disabled={!list.data.next}
                onClick={() => setQuery({ page: String(page + 1) }, true)}
              >
                Older <Icon name="right" size={14} />
              </button>
            </span>
          </nav>
        )}
      </div>
      {cancelling && (
        <BulkCancel
          ids={[...chosen]}
          onClose={() => setCancelling(false)}
          onDone={() => {
            setChosen(new Set());
            list.reload();
          }}
        />
      )}
    </>
  );
}

function filtersOf(params: URLSearchParams, page: number): Query {
  const span = SPANS[params.get('started') ?? ''];
  return {
    page,
    page_size: PAGE_SIZE,
    status: params.get('status'),
    path: params.get('path'),
    q: params.get('q'),
    error: params.get('error'),
    label: params.get('label'),
    min_duration_seconds: params.get('min_duration_seconds'),
    roots_only: params.get('roots_only'),
    order: params.get('order'),
    started_after: span === undefined ? null : new Date(Date.now() - span).toISOString(),
  };
}

/** How many there are behind each preset, as far as it is cheap to know. */
function useCounts(): Readonly<Record<string, string>> {
  const counts = useResource(
    'counts',
    async (signal) => {
      const [stats, today] = await Promise.all([
        get<DashboardStats>('/api/dashboard/stats', {}, signal),
        getWithHeaders('/api/executions', { ...filtersOf(new URLSearchParams(FAILED_TODAY), 1), page_size: 1 }, signal),
      ]);
      return {
        All: stats.total_executions.toLocaleString('en'),
        'In flight': stats.running_executions.toLocaleString('en'),
        'Failed today': today.headers.get('x-total-count') ?? '',
      };
    },
    () => COUNT_MS,
  );
  return counts.data ?? {};
}

function Views() {
  const params = query.value;
  const counts = useCounts();
  const current = params.toString();
  const [naming, setNaming] = useState(false);
  const save = (event: SubmitEvent): void => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const name = String(new FormData(event.currentTarget).get('name') ?? '').trim();
    if (name !== '')
      savedViews.value = [...savedViews.value.filter((each) => each.name !== name), { name, query: current }];
    setNaming(false);
  };
  return (
    <nav class="chips" aria-label="Views">
      {PRESETS.map(([name, text]) => (
        <a
          key={name}
          class="chip"
          href={`${to.executions}${text === '' ? '' : `?${text}`}`}
          aria-current={text === current ? 'true' : undefined}
        >
          {name}
          {counts[name] !== undefined && <span class="count">{counts[name]}</span>}
        </a>
      ))}
      {savedViews.value.map((view) => (
        <span key={view.name} class="chip" aria-current={view.query === current ? 'true' : undefined}>
          <a href={`${to.executions}?${view.query}`}>{view.name}</a>
          <button
            type="button"
            aria-label={`Forget the view ${view.name}`}
            onClick={() => {
              savedViews.value = savedViews.value.filter((each) => each !== view);
            }}
          >
            <Icon name="cross" size={11} />
          </button>
        </span>
      ))}
      {naming ? (
        <form class="row" onSubmit={save}>
          <input name="name" aria-label="Name of this view" placeholder="Name of this view" required />
          <button type="submit" class="button tiny">
            Keep
          </button>
        </form>
      ) : (
        current !== '' && (
          <button type="button" class="button quiet tiny" onClick={() => setNaming(true)}>
            <Icon name="plus" size={12} /> Save this view
          </button>
        )
      )}
    </nav>
  );
}

function Filters() {
  const params = query.value;
  const statuses = new Set((params.get('status') ?? '').split(',').filter((each) => each !== ''));
  const toggle = (status: string): void => {
    if (!statuses.delete(status)) statuses.add(status);
    setQuery({ status: [...statuses].join(','), page: null });
  };
  const text = (name: string, label: string, placeholder: string) => (
    <input
      type="search"
      aria-label={label}
      placeholder={placeholder}
      defaultValue={params.get(name) ?? ''}
      key={`${name} ${params.has(name)}`}
      onChange={(event) => setQuery({ [name]: event.currentTarget.value.trim(), page: null })}
    />
  );
  return (
    <search class="filters">
      <fieldset class="toggles">
        <legend class="visually-hidden">Status</legend>
        {STATUSES.map((status) => (
          <button
            key={status}
            type="button"
            class="toggle"
            aria-pressed={statuses.has(status)}
            onClick={() => toggle(status)}
          >
            {status}
          </button>
        ))}
      </fieldset>
      {text('q', 'Path or number', 'Path or number')}
      {text('error', 'Text of the error', 'Error contains')}
      {text('label', 'Label', 'Label, as key=value')}
      <select
        aria-label="Started"
        value={params.get('started') ?? ''}
        onChange={(event) => setQuery({ started: event.currentTarget.value, page: null })}
      >
        <option value="">Any time</option>
        <option value="1h">Last hour</option>
        <option value="24h">Last 24 hours</option>
        <option value="7d">Last 7 days</option>
      </select>
      <select
        aria-label="Order"
        value={params.get('order') ?? ''}
        onChange={(event) => setQuery({ order: event.currentTarget.value, page: null })}
      >
        <option value="">Newest first</option>
        <option value="start_time">Oldest first</option>
        <option value="-duration">Longest first</option>
        <option value="duration">Shortest first</option>
      </select>
      <label class="row nowrap">
        <input
          type="checkbox"
          checked={params.get('roots_only') === 'true'}
          onChange={(event) => setQuery({ roots_only: event.currentTarget.checked ? 'true' : null, page: null })}
        />
        Top level only
      </label>
      {params.has('path') && (
        <span class="chip" aria-current="true">
          Playbook {params.get('path')}
          <button type="button" aria-label="Any playbook" onClick={() => setQuery({ path: null, page: null })}>
            <Icon name="cross" size={11} />
          </button>
        </span>
      )}
    </search>
  );
}
