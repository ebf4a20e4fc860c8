/** The versions of a playbook, and what one changed against another. */
import { post } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { query, setQuery, to } from '../core/router.ts';
import type { CatalogEntry, CatalogVersion } from '../core/wire.ts';
import { When } from '../parts/instant.tsx';
import { More, ROWS_SHOWN } from '../parts/more.tsx';
import { Card } from '../parts/page.tsx';
import { ScrollRegion } from '../parts/scroll-region.tsx';
import { Failed, Loading } from '../parts/states.tsx';
import { type DiffLine, lineDiff } from './line-diff.ts';

const AROUND = 3;

export function Versions({ path, versions }: { path: string; versions: readonly CatalogVersion[] }) {
  const newest = versions[0]?.version ?? 1;
  const after = Number(query.value.get('b') ?? newest);
  const before = Number(query.value.get('a') ?? Math.max(1, after - 1));
  return (
    <div class="stack">
      <Card title="Versions" flush>
        <div class="scroll-x">
          <table class="list">
            <thead>
              <tr>
                <th class="number">Version</th>
                <th>Registered</th>
                <th>Content</th>
                <th class="number">Executions</th>
                <th>
                  <span class="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {versions.slice(0, ROWS_SHOWN).map((each) => (
                <tr key={each.catalog_id}>
                  <td class="number">
                    <a href={`${to.playbook(path, 'source')}&version=${each.version}`}>{each.version}</a>
                  </td>
                  <td>
                    <When at={each.created_at} />
                    {each.created_by !== null && <span class="soft"> by {each.created_by}</span>}
                    {each.archived_at !== null && <span class="soft"> · archived</span>}
                  </td>
                  <td>
                    <code>{each.sha256.slice(0, 12)}</code>
                  </td>
                  <td class="number">{each.executions}</td>
                  <td class="number">
                    {each.version > 1 && (
                      <button
                        type="button"
                        class="button tiny"
                        onClick={() => setQuery({ a: String(each.version - 1), b: String(each.version) })}
                      >
                        What changed
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          <More total={versions.length} hint="Older ones can be opened by their number, as ?version=N." />
        </div>
      </Card>
      {before !== after && newest > 1 && <Difference path={path} before={before} after={after} />}
    </div>
  );
}

function Difference({ path, before, after }: { path: string; before: number; after: number }) {
  const texts = useResource(`diff ${path} ${before} ${after}`, (signal) =>
    Promise.all(
      [before, after].map((version) => post<CatalogEntry>('/api/catalog/resource', { path, version }, signal)),
    ),
  );
  return (
    <Card title={`From version ${before} to version ${after}`} flush>
      {texts.error !== null && <Failed error={texts.error} retry={texts.reload} />}
      {texts.loading && <Loading what="the difference" />}
      {texts.data !== null && <DiffView lines={lineDiff(texts.data[0]?.content ?? '', texts.data[1]?.content ?? '')} />}
    </Card>
  );
}

export function DiffView({ lines }: { lines: readonly DiffLine[] }) {
  const near = lines.map((_, index) =>
    lines.slice(Math.max(0, index - AROUND), index + AROUND + 1).some((line) => line.kind !== 'same'),
  );
  if (!near.some((each) => each)) return <p class="state">Both texts are the same.</p>;
  return (
    <ScrollRegion class="lines mono" label="Difference">
      {lines.map((line, index) =>
        near[index] === true ? (
          <span key={index} class={`line ${line.kind}`}>
            <span class="line-number" aria-hidden="true">
              {line.before ?? ''}
            </span>
            <span class="line-number" aria-hidden="true">
              {line.after ?? ''}
            </span>
            <span class="line-text">
              {line.kind === 'added' ? '+ ' : line.kind === 'removed' ? '− ' : '  '}
              {line.text}
            </span>
          </span>
        ) : near[index - 1] === true ? (
          <span key={index} class="line skipped" role="presentation">
            ⋯
          </span>
        ) : null,
      )}
    </ScrollRegion>
  );
}
