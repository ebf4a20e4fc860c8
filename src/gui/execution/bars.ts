/** Rows of the timeline from events: one per step, with a bar per activation and a thin one per try of a command. */
import type { GraphNode, LogEvent } from '../core/wire.ts';
import type { Stretch } from './time-scale.ts';

export interface Bar extends Stretch {
  readonly status: string;
  /** Still going: ends at the present. */
  readonly open: boolean;
  readonly label: string;
}

export interface TimelineRow {
  readonly step: string;
  readonly bars: readonly Bar[];
  readonly tries: readonly Bar[];
  /** Not all of its commands were read. */
  readonly partial: boolean;
}

/** Which of at most `most` lines each bar is drawn on, so that those of the same time lie below each other. */
export function linesOf(bars: readonly Stretch[], most: number): readonly number[] {
  const ends: number[] = [];
  return bars.map((bar) => {
    const free = ends.findIndex((end) => end <= bar.from);
    const line = free !== -1 ? free : ends.length < most ? ends.length : ends.indexOf(Math.min(...ends));
    ends[line] = bar.to;
    return line;
  });
}

interface Draft {
  readonly bars: Bar[];
  readonly tries: Bar[];
  entered: number | null;
  activation: number;
  readonly claimed: Map<string, { at: number; attempt: number }>;
}

/** Events oldest first; what has not ended is drawn up to `nowMs`. */
export function timelineRows(events: readonly LogEvent[], nowMs: number): readonly TimelineRow[] {
  const steps = new Map<string, Draft>();
  const last = events.at(-1);
  const ended =
    last !== undefined &&
    /^(playbook\.|execution\.cancelled)/.test(last.event_type) &&
    last.event_type !== 'playbook.started';
  const end = ended ? Date.parse(last.created_at) : nowMs;
  const draftOf = (name: string): Draft => {
    const found = steps.get(name) ?? { bars: [], tries: [], entered: null, activation: 0, claimed: new Map() };
    steps.set(name, found);
    return found;
  };
  for (const event of events) {
    const at = Date.parse(event.created_at);
    switch (event.event_type) {
      case 'step.enter': {
        const draft = draftOf(event.node_name);
        draft.entered = at;
        draft.activation += 1;
        break;
      }
      case 'step.exit': {
        const draft = draftOf(event.node_name);
        draft.bars.push(
          bar(draft.entered ?? at, at, event.status, draft.activation > 1 ? `run ${draft.activation}` : ''),
        );
        draft.entered = null;
        break;
      }
      case 'command.claimed': {
        const { claimed } = draftOf(event.node_name);
        const before = claimed.get(event.node_id);
        claimed.set(event.node_id, { at, attempt: (before?.attempt ?? 0) + 1 });
        break;
      }
      case 'command.completed':
      case 'command.failed':
      case 'command.cancelled': {
        const draft = draftOf(event.node_name);
        const claim = draft.claimed.get(event.node_id);
        if (claim === undefined) break;
        draft.claimed.delete(event.node_id);
        const tries = claim.attempt > 1 ? `, claim ${claim.attempt}` : '';
        draft.tries.push(bar(claim.at, at, event.status, `${event.node_id}${tries}`));
        break;
      }
      default:
    }
  }
  return [...steps].map(([step, draft]) => {
    const status = ended ? 'cancelled' : 'running';
    const bars =
      draft.entered === null ? draft.bars : [...draft.bars, { ...bar(draft.entered, end, status, ''), open: !ended }];
    const open = [...draft.claimed].map(([label, claim]) => ({ ...bar(claim.at, end, status, label), open: !ended }));
    return { step, bars, tries: [...draft.tries, ...open], partial: false };
  });
}

/**
 * Where only the beginning of a long log was read, steps that end or begin after it are drawn as the plan of the run
 * knows them: one bar each, and of their commands those that were read to their end.
 */
export function withLaterSteps(
  rows: readonly TimelineRow[],
  nodes: readonly GraphNode[],
  lastRead: number,
  nowMs: number,
): readonly TimelineRow[] {
  const read = new Map(rows.map((row) => [row.step, row]));
  const later = nodes.flatMap(({ step, state }) => {
    if (state?.started_at == null) return [];
    const from = Date.parse(state.started_at);
    const to = state.ended_at === null ? nowMs : Date.parse(state.ended_at);
    if (to <= lastRead) return [];
    const isOpen = state.ended_at === null;
    const label = state.activations > 1 ? `${state.activations} runs` : '';
    const tries = read.get(step)?.tries.filter((each) => each.to <= lastRead) ?? [];
    return [{ step, bars: [{ ...bar(from, to, state.status, label), open: isOpen }], tries, partial: true }];
  });
  const byStep = new Map(later.map((row) => [row.step, row]));
  const kept = rows.map((row) => byStep.get(row.step) ?? row);
  const added = later.filter((row) => !read.has(row.step));
  return [...kept, ...added.sort((a, b) => (a.bars[0]?.from ?? 0) - (b.bars[0]?.from ?? 0))];
}

function bar(from: number, to: number, status: string, label: string): Bar {
  return { from, to: Math.max(from, to), status, open: false, label };
}
