/** The catalog: what can be run, found by text, with a button that runs it. */
import { useState } from 'preact/hooks';
import { get } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { query, setQuery, to } from '../core/router.ts';
import type { CatalogEntry } from '../core/wire.ts';
import { Icon } from '../parts/icons.tsx';
import { When } from '../parts/instant.tsx';
import { More, ROWS_SHOWN } from '../parts/more.tsx';
import { PageHead } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { RunDialog } from '../playbook/run-dialog.tsx';

export function Playbooks() {
  const [run, setRun] = useState<string | null>(null);
  const q = query.value.get('q') ?? '';
  const list = useResource(`playbooks ${q}`, (signal) =>
    get<readonly CatalogEntry[]>('/api/catalog/playbooks', { q }, signal),
  );
  return (
    <>
      <PageHead title="Playbooks" lead="Everything that can be run, in its newest version.">
        <a class="button primary" href={to.editor()}>
          <Icon name="plus" size={14} /> New playbook
        </a>
      </PageHead>
      <div class="stack">
        <search class="filters">
          <input
            type="search"
            aria-label="Path, name or description"
            placeholder="Path, name or description"
            defaultValue={q}
            onInput={(event) => setQuery({ q: event.currentTarget.value.trim() })}
          />
        </search>
        <section class="card" aria-label="Playbooks">
          {list.error !== null && list.data === null ? (
            <Failed error={list.error} retry={list.reload} />
          ) : list.data === null ? (
            <Loading what="playbooks" />
          ) : list.data.length === 0 ? (
            <Empty icon="book" title={q === '' ? 'No playbooks yet' : 'No playbook fits'}>
              {q === '' ? (
                <>
                  <p>A playbook is a workflow written in YAML. The editor starts with a small one that works.</p>
                  <a class="button primary" href={to.editor()}>
                    Write the first one
                  </a>
                </>
              ) : (
                <a class="button" href={to.playbooks}>
                  Show all
                </a>
              )}
            </Empty>
          ) : (
            <PlaybookTable entries={list.data} onRun={setRun} />
          )}
        </section>
      </div>
      {run !== null && <RunDialog path={run} version={null} onClose={() => setRun(null)} />}
    </>
  );
}

function PlaybookTable({ entries, onRun }: { entries: readonly CatalogEntry[]; onRun: (path: string) => void }) {
  return (
    <div class="scroll-x">
      <table class="list">
        <thead>
          <tr>
            <th>Playbook</th>
            <th class="number">Version</th>
            <th class="number">Steps</th>
            <th>Registered</th>
            <th>
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {entries.slice(0, ROWS_SHOWN).map((each) => (
            <tr key={each.path}>
              <td class="grow">
                <a href={to.playbook(each.path)} class="break">
                  {each.path}
                </a>
                {each.kind !== 'playbook' && <span class="badge plain"> {each.kind}</span>}
                <span class="sub">{each.description ?? each.name}</span>
              </td>
              <td class="number">{each.version}</td>
              <td class="number">{each.tasks_count}</td>
              <td>
                <When at={each.created_at} />
              </td>
              <td class="number">
                <a
                  class="button tiny quiet"
                  href={`${to.executions}?path=${encodeURIComponent(each.path)}`}
                  aria-label={`Runs of ${each.path}`}
                >
                  Runs
                </a>{' '}
                {each.kind === 'playbook' && (
                  <button
                    type="button"
                    class="button tiny"
                    aria-label={`Run ${each.path}`}
                    onClick={() => onRun(each.path)}
                  >
                    <Icon name="play" size={12} /> Run
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <More total={entries.length} hint="Search for the others." />
    </div>
  );
}
