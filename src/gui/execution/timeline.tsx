/** When each step ran: rows of HTML, idle stretches folded, one bar per activation and a thin one per command. */
import { useState } from 'preact/hooks';
import { now } from '../core/clock.ts';
import { useResource } from '../core/resource.ts';
import { to } from '../core/router.ts';
import { durationText, utcText } from '../core/time.ts';
import type { Execution } from '../core/wire.ts';
import { loadStory } from '../graph/source.ts';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { type Bar, linesOf, type TimelineRow, timelineRows } from './bars.ts';
import { type TimeScale, timeScale } from './time-scale.ts';

const TRIES_SHOWN = 120;
const EVENTS_PER_LOOK = 10;
const LINES_MAX = 8;
const LINE_PX = 6;
const FIRST_LINE_PX = 25;

export function Timeline({ row, events }: { row: Execution; events: number }) {
  const [folding, setFolding] = useState(true);
  const story = useResource(
    `story ${row.execution_id} ${row.status} ${Math.floor(events / EVENTS_PER_LOOK)}`,
    (signal) => loadStory(row.execution_id, signal),
  );
  if (story.data === null)
    return story.error === null ? <Loading what="the timeline" /> : <Failed error={story.error} retry={story.reload} />;
  const end = row.end_time === null ? now.value : Date.parse(row.end_time);
  const rows = timelineRows(story.data.events, end);
  if (rows.length === 0) {
    return (
      <section class="card">
        <Empty icon="circle" title="No step has begun yet" />
      </section>
    );
  }
  const whole = { from: Date.parse(row.start_time), to: Math.max(end, Date.parse(row.start_time) + 1) };
  const scale = timeScale(
    whole,
    rows.flatMap((each) => [...each.tries, ...each.bars.filter((bar) => bar.to - bar.from < 1000)]),
    folding,
  );
  return (
    <section class="card" aria-label="Timeline">
      <header>
        <p class="small soft">
          {durationText(whole.to - whole.from)} in all, from {utcText(row.start_time)}
          {story.data.cut && ' · only the first part of a long log is drawn'}
        </p>
        <label class="row small">
          <input type="checkbox" checked={folding} onChange={(event) => setFolding(event.currentTarget.checked)} />
          Fold idle time
        </label>
      </header>
      <div class="timeline">
        {rows.map((each) => (
          <Row key={each.step} row={each} scale={scale} id={row.execution_id} />
        ))}
        <div class="timeline-row axis" aria-hidden="true">
          <span />
          <span class="lane">
            <span>0</span>
            {scale.folds.map((fold) => (
              <span key={fold.at} class="fold-text" style={{ left: `${(fold.at + fold.width / 2) * 100}%` }}>
                {durationText(fold.ms)} idle
              </span>
            ))}
            <span>{durationText(whole.to - whole.from)}</span>
          </span>
        </div>
      </div>
    </section>
  );
}

function Row({ row, scale, id }: { row: TimelineRow; scale: TimeScale; id: number }) {
  const total = row.bars.reduce((sum, bar) => sum + bar.to - bar.from, 0);
  const tries = row.tries.length <= 1 ? [] : [...row.tries].sort((a, b) => a.from - b.from).slice(0, TRIES_SHOWN);
  const lines = linesOf(tries, LINES_MAX);
  const height = tries.length === 0 ? 34 : FIRST_LINE_PX + (Math.max(...lines) + 1) * LINE_PX + 3;
  return (
    <div class="timeline-row">
      <a class="break" href={`${to.execution(id, 'events')}?step=${encodeURIComponent(row.step)}`}>
        {row.step}
        <span class="sub">
          {durationText(total)}
          {row.tries.length > 1 && ` · ${row.tries.length} commands`}
        </span>
      </a>
      <div class="lane" style={{ height: `${height}px` }}>
        {scale.folds.map((fold) => (
          <span key={fold.at} class="fold" style={{ left: `${fold.at * 100}%`, width: `${fold.width * 100}%` }} />
        ))}
        {row.bars.map((bar) => (
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
