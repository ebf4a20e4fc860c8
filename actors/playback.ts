/**
 * Plays logs of executions for whoever looks at them: to any place, or frame by frame. It begins at the nearest known
 * mark (the stored snapshot, or one left by an earlier play), because a log never changes before a place that was
 * handled; so the next page of a trace costs a page, and only the first look into a long past costs the log up to there.
 */
import { EXECUTION_MACHINE_VERSION } from '../machines/execution/machine.ts';
import type { Run } from '../machines/execution/run.ts';
import { copyRun, type Frame, type Mark, Tape } from '../machines/execution/tape.ts';
import { isMap } from '../machines/json.ts';
import { Recent } from './recent.ts';
import type { Trail, TrailHead, TrailPosition } from './trail.ts';

const CHUNK = 1000;
const MARKS_MAX = 32;
/** Members of runs kept in marks, over all executions. */
const MARKED_MAX = 2_000_000;
const EXECUTIONS_MAX = 256;
const END: TrailPosition = { causeId: Number.MAX_SAFE_INTEGER, eventId: Number.MAX_SAFE_INTEGER };

export interface TracePage {
  readonly frames: readonly Frame[];
  /** Null at the end of what is handled. */
  readonly nextAfter: number | null;
}

export class Playback {
  readonly #trail: Trail;
  readonly #marks = new Recent<number, readonly Mark[]>({ countMax: EXECUTIONS_MAX, sizeMax: MARKED_MAX });

  constructor(trail: Trail) {
    this.#trail = trail;
  }

  /** The chart right after the event at this place, or (no place) after everything that is handled. */
  async at(head: TrailHead, place: TrailPosition | null): Promise<Tape> {
    const end = place ?? END;
    const tape = new Tape(this.#nearest(head, (mark) => !isAfter(mark, end)));
    await this.#play(
      head,
      tape,
      (event) => !isAfter(event, end),
      (event) => tape.skip(event),
    );
    return tape;
  }

  /** Up to `limit` frames after frame number `after`; frames that changed nothing only when `all`. */
  async frames(head: TrailHead, after: number, limit: number, all: boolean): Promise<TracePage> {
    const tape = await this.#before(head, after);
    const frames: Frame[] = [];
    const isOver = await this.#play(
      head,
      tape,
      () => frames.length < limit,
      (event) => {
        const frame = tape.play(event);
        if (all || frame.changed || frame.isKeyframe) frames.push(frame);
      },
    );
    this.#keep(head, tape);
    return { frames, nextAfter: isOver ? null : tape.n };
  }

  /** A tape that stands after frame number `n` (or at the end, where the log is shorter). */
  async #before(head: TrailHead, n: number): Promise<Tape> {
    const tape = new Tape(this.#nearest(head, (mark) => mark.n <= n));
    await this.#play(
      head,
      tape,
      () => tape.n < n,
      (event) => tape.skip(event),
    );
    return tape;
  }

  /** Plays on while `wanted`; true when nothing handled is left. Chunks leave room for others between them. */
  async #play(
    head: TrailHead,
    tape: Tape,
    wanted: (event: TrailPosition) => boolean,
    play: (event: Parameters<Tape['skip']>[0]) => void,
  ): Promise<boolean> {
    const { executionId, handledThrough, lastEventId } = head.row;
    for (;;) {
      if (tape.n >= lastEventId) return true;
      const rows = await this.#trail.rows(executionId, tape.position, handledThrough, CHUNK);
      for (const event of rows) {
        if (!wanted(event)) return false;
        play(event);
        if (tape.n % CHUNK === 0) this.#keep(head, tape);
      }
      if (rows.length < CHUNK) return true;
    }
  }

  #nearest(head: TrailHead, fits: (mark: Mark) => boolean): Mark | null {
    const known = this.#marks.get(head.row.executionId) ?? [];
    const stored = snapshotMark(head);
    let best: Mark | null = null;
    for (const mark of stored === null ? known : [...known, stored]) {
      if (fits(mark) && (best === null || mark.n > best.n)) best = mark;
    }
    return best;
  }

  #keep({ row }: TrailHead, tape: Tape): void {
    const known = this.#marks.get(row.executionId) ?? [];
    if (known.some((mark) => mark.n === tape.n)) return;
    const marks = [...known, tape.mark()].sort((a, b) => a.n - b.n);
    // Thinned out evenly: every second one goes, and a play from the next earlier one is twice as long.
    const kept = marks.length > MARKS_MAX ? marks.filter((_, index) => index % 2 === 1) : marks;
    this.#marks.put(
      row.executionId,
      kept,
      kept.reduce((sum, mark) => sum + membersOf(mark.run), 0),
    );
  }
}

/**
 * A snapshot is a mark: it is only taken while nothing waits to be handled, so it stands for every event up to its number,
 * and every later one has a later cause.
 */
function snapshotMark({ snapshot }: TrailHead): Mark | null {
  if (snapshot === null || snapshot.machineVersion !== EXECUTION_MACHINE_VERSION) return null;
  const run = snapshot.context['run'];
  if (!isMap(run)) return null;
  const n = snapshot.throughEventId;
  // Written by this machine version, so the shape is a Run's.
  return { n, causeId: n, eventId: n, value: snapshot.value, run: copyRun(run as unknown as Run) };
}

function isAfter(a: TrailPosition, b: TrailPosition): boolean {
  return a.causeId > b.causeId || (a.causeId === b.causeId && a.eventId > b.eventId);
}

function membersOf(run: Run): number {
  return 16 + Object.keys(run.steps).length + Object.keys(run.open).length + Object.keys(run.written).length;
}
