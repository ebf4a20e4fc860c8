/** A chart as a drawing with its active states, and the same as a table. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ChartConfig } from '../core/wire.ts';
import { pathOf } from '../graph/route-path.ts';
import { ScrollRegion } from '../parts/scroll-region.tsx';
import { LABEL_LINE, labelWidth, layoutChart } from './chart-layout.ts';
import { type ChartModel, chartModel, withOuter } from './chart-model.ts';

const PADDING = 20;

export function ChartView({
  name,
  config,
  active,
  taken,
}: {
  name: string;
  config: ChartConfig;
  /** As the API names them. */
  active: readonly string[];
  /** The event that was just handled, and the states before it. */
  taken?: { readonly event: string; readonly before: readonly string[] } | null;
}) {
  const [asTable, setAsTable] = useState(false);
  const model = useMemo(() => chartModel(name, config), [name, config]);
  const on = withOuter(active);
  return (
    <section class="card" aria-label={`Chart of ${name}`}>
      <header>
        <p class="small soft" role="status">
          {active.length === 0
            ? `${model.states.length} states`
            : `In ${active.map((id) => id.slice(name.length + 1)).join(' and ')}`}
        </p>
        <button type="button" class="button tiny" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? 'Show the drawing' : 'Show as a table'}
        </button>
      </header>
      {asTable ? (
        <ChartTable model={model} active={on} />
      ) : (
        <ChartDrawing model={model} active={on} taken={taken ?? null} />
      )}
    </section>
  );
}

function ChartDrawing({
  model,
  active,
  taken,
}: {
  model: ChartModel;
  active: ReadonlySet<string>;
  taken: { readonly event: string; readonly before: readonly string[] } | null;
}) {
  const layout = useMemo(() => layoutChart(model), [model]);
  const before = taken === null ? null : withOuter(taken.before);
  const width = layout.width + 2 * PADDING;
  const height = layout.height + 2 * PADDING;
  const area = useRef<HTMLElement>(null);
  const innermost =
    layout.boxes.findLast((box) => active.has(box.state.id)) ?? layout.boxes.find((box) => box.state.initial);
  // Of a drawing larger than its window the active state is in sight.
  useEffect(() => {
    if (area.current === null || innermost === undefined) return;
    const { x, y, width: wide, height: high } = innermost;
    bringIntoSight(area.current, { left: x + PADDING, top: y + PADDING, width: wide, height: high });
  }, [layout, innermost?.state.id]);
  const isTaken = (arrow: { from: string; to: string; events: readonly string[] }): boolean =>
    taken !== null && before?.has(arrow.from) === true && active.has(arrow.to) && arrow.events.includes(taken.event);
  return (
    <ScrollRegion class="graph" label={`Drawing of ${model.name}`} area={area}>
      <div class="graph-area" style={{ width: `${width}px`, height: `${height}px` }}>
        {layout.boxes.map((box) => (
          <div
            key={box.state.id}
            class={`state-box${box.compound ? ' compound' : ''}${box.state.final ? ' final' : ''}${active.has(box.state.id) ? ' active' : ''}`}
            style={{
              left: `${box.x + PADDING}px`,
              top: `${box.y + PADDING}px`,
              width: `${box.width}px`,
              height: `${box.height}px`,
            }}
            title={box.state.description}
          >
            <span class="state-name">
              {box.state.initial && <span class="initial" aria-hidden="true" />}
              {box.state.name}
              {active.has(box.state.id) && <span class="visually-hidden"> (active)</span>}
            </span>
            {box.state.inner.length > 0 && (
              <span class="state-sub" title={`Handles without leaving: ${box.state.inner.join(', ')}`}>
                {box.state.inner.join(', ')}
              </span>
            )}
          </div>
        ))}
        <svg
          class="above"
          width={width}
          height={height}
          viewBox={`${-PADDING} ${-PADDING} ${width} ${height}`}
          aria-hidden="true"
        >
          <defs>
            <marker
              id="chart-arrow"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="8"
              markerHeight="8"
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0 0.500L7.500 4L0 7.500z" class="arrow" />
            </marker>
            <marker
              id="chart-arrow-taken"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="10"
              markerHeight="10"
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0 0.500L7.500 4L0 7.500z" class="arrow taken" />
            </marker>
          </defs>
          {layout.arrows.map(({ arrow, points, direction }) => (
            <path
              key={arrow.id}
              d={pathOf(points, direction)}
              class={isTaken(arrow) ? 'edge taken' : 'edge'}
              marker-end={isTaken(arrow) ? 'url(#chart-arrow-taken)' : 'url(#chart-arrow)'}
            />
          ))}
          {layout.arrows.map(({ arrow, label }) =>
            label === null ? null : (
              <rect
                key={`${arrow.id} behind`}
                class="edge-label-back"
                x={label.x - labelWidth(arrow) / 2 + 2}
                y={label.y - (arrow.lines.length * LABEL_LINE) / 2}
                width={labelWidth(arrow) - 4}
                height={arrow.lines.length * LABEL_LINE}
                rx="4"
              />
            ),
          )}
          {layout.arrows.map(({ arrow, label }) =>
            label === null
              ? null
              : arrow.lines.map((line, index) => (
                  <text
                    key={`${arrow.id} ${line}`}
                    x={label.x}
                    y={label.y + (index - (arrow.lines.length - 1) / 2) * LABEL_LINE}
                    class={isTaken(arrow) && arrow.events[index] === taken?.event ? 'edge-label taken' : 'edge-label'}
                  >
                    {line}
                  </text>
                )),
          )}
        </svg>
      </div>
    </ScrollRegion>
  );
}

/** Scrolls only as far as it takes: to the middle in a direction in which it was not in sight. */
function bringIntoSight(
  area: HTMLElement,
  box: { readonly left: number; readonly top: number; readonly width: number; readonly height: number },
): void {
  const { scrollLeft, scrollTop, clientWidth, clientHeight } = area;
  if (box.left < scrollLeft || box.left + box.width > scrollLeft + clientWidth)
    area.scrollLeft = box.left + box.width / 2 - clientWidth / 2;
  if (box.top < scrollTop || box.top + box.height > scrollTop + clientHeight)
    area.scrollTop = box.top + box.height / 2 - clientHeight / 2;
}

function ChartTable({ model, active }: { model: ChartModel; active: ReadonlySet<string> }) {
  return (
    <div class="scroll-x">
      <table class="list">
        <caption class="visually-hidden">States of {model.name} and where they lead</caption>
        <thead>
          <tr>
            <th>State</th>
            <th>Meaning</th>
            <th>Leads to</th>
          </tr>
        </thead>
        <tbody>
          {model.states.map((state) => (
            <tr key={state.id}>
              <td>
                <code>{state.id.slice(model.name.length + 1)}</code>
                {active.has(state.id) && <strong> active</strong>}
                {state.final && <span class="soft small"> final</span>}
              </td>
              <td>{state.description}</td>
              <td>
                {model.arrows
                  .filter((arrow) => arrow.from === state.id)
                  .map((arrow) => (
                    <span key={arrow.id} class="lead-to">
                      {arrow.to.slice(model.name.length + 1)}{' '}
                      <span class="soft small">on {arrow.lines.join(', ')}</span>
                    </span>
                  ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
