/** When each step ran: rows of HTML, idle stretches folded, one bar per activation and a thin one per command. */
import { useRef, useState } from 'preact/hooks';
import { now } from '../core/clock.ts';
import { useResource } from '../core/resource.ts';
import { to } from '../core/router.ts';
import { durationText, utcText } from '../core/time.ts';
import type { Execution } from '../core/wire.ts';
import { executionGraph, loadStory, type Story } from '../graph/source.ts';
import { Icon } from '../parts/icons.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { type Bar, linesOf, type TimelineRow, timelineRows, withLaterSteps } from './bars.ts';
import { chooseStretch, chosenStretch, useBrush } from './brush.tsx';
import { type Stretch, type TimeScale, timeScale, within } from './time-scale.ts';
import { stretchForKey } from './zoom.ts';

const TRIES_SHOWN = 120;
const LINES_MAX = 8;
const LINE_PX = 6;
const FIRST_LINE_PX = 25;

export function Timeline({ row, events }: { row: Execution; events: number }) {
  const [folding, setFolding] = useState(true);
  const read = useRef<Story | undefined>(undefined);
  const story = useResource(
    `story ${row.execution_id}`,
    async (signal) => {
      const found = await loadStory(row.execution_id, signal, read.current);
      const plan = found.cut ? await executionGraph(row, signal) : null;
      read.current = found;
      return { ...found, nodes: plan?.nodes ?? [] };
    },
    () => null,
    `${row.status} ${events}`,
  );
  if (story.data === null)
    return story.error === null ? <Loading what="the timeline" /> : <Failed error={story.error} retry={story.reload} />;
  const end = row.end_time === null ? now.value : Date.parse(row.end_time);
  const told = timelineRows(story.data.events, end);
  const lastRead = Date.parse(story.data.events.at(-1)?.created_at ?? row.start_time);
  const rows = story.data.cut ? withLaterSteps(told, story.data.nodes, lastRead, end) : told;
  if (rows.length === 0) {
    return (
      <section class="card">
        <Empty icon="circle" title="No step has begun yet" />
      </section>
    );
  }
  const whole = { from: Date.parse(row.start_time), to: Math.max(end, Date.parse(row.start_time) + 1) };
  return <Lanes row={row} rows={rows} whole={whole} cut={story.data.cut} folding={folding} onFold={setFolding} />;
}

function Lanes({
  row,
  rows,
  whole,
  cut,
  folding,
  onFold,
}: {
  row: Execution;
  rows: readonly TimelineRow[];
  whole: Stretch;
  /** Not all commands are drawn. */
  cut: boolean;
  folding: boolean;
  onFold: (on: boolean) => void;
}) {
  const shown = chosenStretch(whole);
  const all = shown.from <= whole.from && shown.to >= whole.to;
  const busy = rows.flatMap((each) => [
    ...each.tries,
    ...each.bars.filter((bar) => each.partial || bar.to - bar.from < 1000),
  ]);
  const scale = timeScale(shown, within(shown, busy), folding);
  const brush = useBrush(whole, shown, scale);
  return (
    <section class="card" aria-label="Timeline">
      <header>
        <p class="small soft" role="status">
          {all
            ? `${durationText(whole.to - whole.from)} in all, from ${utcText(row.start_time)}`
            : `${durationText(shown.to - shown.from)} of ${durationText(whole.to - whole.from)}, from +${durationText(shown.from - whole.from)}`}
          {cut && ' · of a long log only the first commands are drawn'}
        </p>
        <div class="row">
          <label class="row small nowrap">
            <input type="checkbox" checked={folding} onChange={(event) => onFold(event.currentTarget.checked)} />
            Fold idle time
          </label>
          <ZoomButtons whole={whole} shown={shown} all={all} />
        </div>
      </header>
      {/* biome-ignore lint/a11y/useSemanticElements: a group of rows, not of fields */}
      <div
        class="timeline"
        role="group"
        aria-label="When each step ran. Plus and minus zoom, arrows move, 0 shows all."
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keys of the zoom are heard here
        tabIndex={0}
        {...brush.handlers}
      >
        {brush.box !== null && <div class="brush" style={brush.box} />}
        {rows.map((each) => (
          <Row key={each.step} row={each} scale={scale} shown={shown} id={row.execution_id} />
        ))}
        <div class="timeline-row axis" aria-hidden="true">
          <span />
          <span class="lane">
            <span>{durationText(shown.from - whole.from)}</span>
            {scale.folds.map((fold) => (
              <span key={fold.at} class="fold-text" style={{ left: `${(fold.at + fold.width / 2) * 100}%` }}>
                {durationText(fold.ms)} idle
              </span>
            ))}
            <span>{durationText(shown.to - whole.from)}</span>
          </span>
        </div>
      </div>
    </section>
  );
}

function ZoomButtons({ whole, shown, all }: { whole: Stretch; shown: Stretch; all: boolean }) {
  const go = (key: string): void => chooseStretch(whole, stretchForKey(key, whole, shown));
  return (
    <span class="row nowrap">
      <button
        type="button"
        class="button tiny"
        aria-label="Zoom in"
        title="Zoom in, or drag over the bars"
        onClick={() => go('+')}
      >
        <Icon name="plus" size={13} />
      </button>
      <button type="button" class="button tiny" aria-label="Zoom out" disabled={all} onClick={() => go('-')}>
        <Icon name="minus" size={13} />
      </button>
      <button type="button" class="button tiny" disabled={all} onClick={() => go('0')}>
        Show all
      </button>
    </span>
  );
}

function Row({ row, scale, shown, id }: { row: TimelineRow; scale: TimeScale; shown: Stretch; id: number }) {
  const total = row.bars.reduce((sum, bar) => sum + bar.to - bar.from, 0);
  const seen = (bar: Bar): boolean => bar.to >= shown.from && bar.from <= shown.to;
  const tries =
    row.tries.length <= 1
      ? []
      : row.tries
          .filter(seen)
          .sort((a, b) => a.from - b.from)
          .slice(0, TRIES_SHOWN);
  const lines = linesOf(tries, LINES_MAX);
  const height = tries.length === 0 ? 34 : FIRST_LINE_PX + (Math.max(...lines) + 1) * LINE_PX + 3;
  return (
    <div class="timeline-row">
      <a class="break" href={`${to.execution(id, 'events')}?step=${encodeURIComponent(row.step)}`}>
        {row.step}
        <span class="sub">
          {durationText(total)}
          {row.tries.length > 1 && ` · ${row.partial ? 'first ' : ''}${row.tries.length} commands`}
        </span>
      </a>
      <div class="lane" style={{ height: `${height}px` }}>
        {scale.folds.map((fold) => (
          <span key={fold.at} class="fold" style={{ left: `${fold.at * 100}%`, width: `${fold.width * 100}%` }} />
        ))}
        {row.bars.filter(seen).map((bar) => (
          <BarBox key={bar.from} bar={bar} scale={scale} step={row.step} kind="bar" top={tries.length === 0 ? 10 : 6} />
        ))}
        {tries.map((bar, index) => (
          <BarBox
            key={`${bar.label} ${bar.from}`}
            bar={bar}
            scale={scale}
            step={row.step}
            kind="try"
            top={FIRST_LINE_PX + (lines[index] ?? 0) * LINE_PX}
          />
        ))}
      </div>
    </div>
  );
}

function BarBox({
  bar,
  scale,
  step,
  kind,
  top,
}: {
  bar: Bar;
  scale: TimeScale;
  step: string;
  kind: 'bar' | 'try';
  top: number;
}) {
  const from = scale.place(bar.from);
  const width = Math.max(0.002, scale.place(bar.to) - from);
  const text = `${bar.label === '' ? step : `${step} ${bar.label}`}: ${bar.status}, ${durationText(bar.to - bar.from)}`;
  return (
    <span
      class={`${kind} status-${bar.status}${bar.open ? ' open' : ''}`}
      style={{ left: `${from * 100}%`, width: `${width * 100}%`, top: `${top}px` }}
      title={text}
      role="img"
      aria-label={text}
    />
  );
}
