/** Differences of two texts by lines: the shortest edit (Myers), with equal heads and tails set aside first. Pure. */

export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed';
  readonly text: string;
  /** Line numbers from 1; null where the line does not exist. */
  readonly before: number | null;
  readonly after: number | null;
}

/** Texts that differ in more places than this are shown as replaced. */
const EDITS_MAX = 2000;

export function lineDiff(before: string, after: string): readonly DiffLine[] {
  const a = before.split('\n');
  const b = after.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const middle = edits(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  const push = (kind: DiffLine['kind']): void => {
    lines.push({
      kind,
      text: (kind === 'added' ? b[j] : a[i]) ?? '',
      before: kind === 'added' ? null : i + 1,
      after: kind === 'removed' ? null : j + 1,
    });
    if (kind !== 'added') i++;
    if (kind !== 'removed') j++;
  };
  for (let k = 0; k < head; k++) push('same');
  for (const kind of middle) push(kind);
  for (let k = 0; k < tail; k++) push('same');
  return lines;
}

function edits(a: readonly string[], b: readonly string[]): DiffLine['kind'][] {
  const max = Math.min(a.length + b.length, EDITS_MAX);
  const trace: Map<number, number>[] = [];
  let reach = new Map<number, number>([[1, 0]]);
  for (let d = 0; d <= max; d++) {
    trace.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? (reach.get(k + 1) ?? 0) : (reach.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reach.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkBack(trace, a.length, b.length);
    }
    reach = new Map(reach);
  }
  return [...a.map(() => 'removed' as const), ...b.map(() => 'added' as const)];
}

function walkBack(trace: readonly Map<number, number>[], aLength: number, bLength: number): DiffLine['kind'][] {
  const kinds: DiffLine['kind'][] = [];
  let x = aLength;
  let y = bLength;
  for (let d = trace.length - 1; d >= 0; d--) {
    const reach = trace[d]!;
    const k = x - y;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const from = down ? k + 1 : k - 1;
    const fromX = reach.get(from) ?? 0;
    const fromY = fromX - from;
    while (x > fromX && y > fromY && x > 0 && y > 0) {
      kinds.push('same');
      x--;
      y--;
    }
    if (d > 0) {
      kinds.push(down ? 'added' : 'removed');
      x = fromX;
      y = fromY;
    }
  }
  return kinds.reverse();
}
