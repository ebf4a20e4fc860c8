/** One playbook: its graph and source, its versions and how they differ, what ran of it, and its keychain. */
import { useState } from 'preact/hooks';
import { catalogAddress, get, post } from '../core/api.ts';
import { learn } from '../core/executions.ts';
import { useResource } from '../core/resource.ts';
import { query, segments, setQuery, to } from '../core/router.ts';
import type { CatalogEntry, CatalogVersion, Execution } from '../core/wire.ts';
import { ExecutionTable } from '../execution/execution-table.tsx';
import { GraphView } from '../graph/graph-view.tsx';
import { planGraph } from '../graph/source.ts';
import { Copy } from '../parts/copy.tsx';
import { Icon } from '../parts/icons.tsx';
import { Card, PageHead, Tabs } from '../parts/page.tsx';
import { ScrollRegion } from '../parts/scroll-region.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { KeychainEntries } from '../playbook/keychain-entries.tsx';
import { RunDialog } from '../playbook/run-dialog.tsx';
import { Versions } from '../playbook/versions.tsx';
import { yamlLines } from '../playbook/yaml-lines.ts';

const VIEWS: readonly (readonly [string, string])[] = [
  ['graph', 'Graph'],
  ['source', 'Source'],
  ['versions', 'Versions'],
  ['runs', 'Executions'],
  ['keychain', 'Keychain'],
];

export function PlaybookPage() {
  const path = segments.value.slice(1).join('/');
  const view = query.value.get('view') ?? 'graph';
  const version = Number(query.value.get('version') ?? 0) || null;
  const [running, setRunning] = useState(false);
  const entry = useResource(`entry ${path} ${version}`, (signal) =>
    post<CatalogEntry>('/api/catalog/resource', { path, version: version ?? 'latest' }, signal),
  );
  const versions = useResource(`versions ${path}`, (signal) =>
    get<{ readonly versions: readonly CatalogVersion[] }>(catalogAddress(path, 'versions'), {}, signal),
  );
  const data = entry.data;
  const href = (id: string) => to.playbook(path, id) + (version === null ? '' : `&version=${version}`);
  return (
    <>
      <PageHead
        title={path}
        crumbs={<a href={to.playbooks}>Playbooks</a>}
        beside={data !== null && data.status !== 'active' ? <StatusBadge status={data.status} /> : undefined}
        lead={data?.description ?? undefined}
      >
        {versions.data !== null && (
          <label class="row">
            <span class="soft">Version</span>
            <select value={version ?? ''} onChange={(event) => setQuery({ version: event.currentTarget.value }, true)}>
              <option value="">newest ({versions.data.versions[0]?.version})</option>
              {versions.data.versions.map((each) => (
                <option key={each.version} value={each.version}>
                  {each.version}
                </option>
              ))}
            </select>
          </label>
        )}
        <a class="button" href={to.editor(path)}>
          <Icon name="edit" size={14} /> Edit
        </a>
        <button type="button" class="button primary" disabled={data === null} onClick={() => setRunning(true)}>
          <Icon name="play" size={14} /> Run…
        </button>
      </PageHead>
      <Tabs
        label="Ways of looking at this playbook"
        current={view}
        tabs={VIEWS.map(([id, name]) => ({ id, name, href: href(id) }))}
      />
      {entry.error !== null ? (
        <Failed error={entry.error} retry={entry.reload} />
      ) : data === null ? (
        <Loading what="the playbook" />
      ) : (
        <View view={view} entry={data} versions={versions.data?.versions ?? []} />
      )}
      {running && <RunDialog path={path} version={version} onClose={() => setRunning(false)} />}
    </>
  );
}

function View({ view, entry, versions }: { view: string; entry: CatalogEntry; versions: readonly CatalogVersion[] }) {
  switch (view) {
    case 'source':
      return <Source entry={entry} />;
    case 'versions':
      return <Versions path={entry.path} versions={versions} />;
    case 'runs':
      return <Runs path={entry.path} />;
    case 'keychain':
      return (
        <Card title={`Keychain of version ${entry.version}`} flush>
          <KeychainEntries catalogId={entry.catalog_id} />
        </Card>
      );
    default:
      return <PlanGraph entry={entry} />;
  }
}

function PlanGraph({ entry }: { entry: CatalogEntry }) {
  const graph = useResource(`plan ${entry.catalog_id}`, (signal) => planGraph(entry.path, entry.version, signal));
  const step = query.value.get('step');
  if (graph.data === null)
    return graph.error === null ? <Loading what="the graph" /> : <Failed error={graph.error} retry={graph.reload} />;
  if (graph.data.nodes.length === 0) {
    return (
      <section class="card">
        <Empty icon="book" title="This entry has no steps">
          <p>It is a {entry.kind}, which is used by playbooks and does not run by itself.</p>
        </Empty>
      </section>
    );
  }
  const chosen =
    entry.content
      ?.split('\n')
      .findIndex((line) => new RegExp(`^\\s*-\\s+step:\\s*["']?${escapePattern(step ?? '')}["']?\\s*$`).test(line)) ??
    -1;
  return (
    <div class={step === null || chosen === -1 ? 'stack' : 'columns'}>
      <GraphView graph={graph.data} chosen={step} onChoose={(id) => setQuery({ step: id })} />
      {step !== null && chosen !== -1 && (
        <Card title={step} flush>
          <Lines text={stepText(entry.content ?? '', chosen)} from={chosen + 1} label={`Source of ${step}`} />
        </Card>
      )}
    </div>
  );
}

/** The lines of a step: down to the next line that is not further in. */
function stepText(content: string, from: number): string {
  const lines = content.split('\n');
  const depth = lines[from]?.search(/\S/) ?? 0;
  const length = lines.slice(from + 1).findIndex((line) => line.trim() !== '' && line.search(/\S/) <= depth);
  const own = lines.slice(from, length === -1 ? undefined : from + 1 + length);
  while (own.at(-1)?.trim() === '') own.pop();
  return own.join('\n');
}

function escapePattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

function Source({ entry }: { entry: CatalogEntry }) {
  return (
    <Card title={`Version ${entry.version}`} flush actions={<Copy text={entry.content ?? ''} what="source" />}>
      <Lines text={entry.content ?? ''} from={1} label="Source" />
    </Card>
  );
}

function Lines({ text, from, label }: { text: string; from: number; label: string }) {
  return (
    <ScrollRegion class="lines mono" label={label}>
      {yamlLines(text).map((parts, index) => (
        <span key={index} class="line">
          <span class="line-number" aria-hidden="true">
            {from + index}
          </span>
          <span class="line-text">
            {parts.length === 0
              ? ' '
              : parts.map((part) =>
                  part.kind === 'plain' ? part.text : <span class={`yaml-${part.kind}`}>{part.text}</span>,
                )}
          </span>
        </span>
      ))}
    </ScrollRegion>
  );
}

function Runs({ path }: { path: string }) {
  const runs = useResource(
    `runs ${path}`,
    async (signal) => {
      const rows = await get<readonly Execution[]>('/api/executions', { path, page_size: 50 }, signal);
      for (const each of rows) learn(each);
      return rows.map((each) => each.execution_id);
    },
    () => 3_000,
  );
  return (
    <Card
      title="Executions"
      flush
      actions={<a href={`${to.executions}?path=${encodeURIComponent(path)}`}>Filter them</a>}
    >
      {runs.data === null ? (
        runs.error === null ? (
          <Loading what="executions" />
        ) : (
          <Failed error={runs.error} retry={runs.reload} />
        )
      ) : runs.data.length === 0 ? (
        <Empty icon="play" title="It has not run yet">
          <p>Press Run at the top: a form with its inputs opens.</p>
        </Empty>
      ) : (
        <ExecutionTable ids={runs.data} />
      )}
    </Card>
  );
}
