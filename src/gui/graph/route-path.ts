/** The line an edge is drawn with, from the points of its route. Pure. */

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** How far an edge to its own node reaches beyond it, in px. */
export const LOOP_REACH = 26;

/** The smooth path through the points of a route, as an SVG path. */
export function pathOf(points: readonly Point[], direction: 'down' | 'right'): string {
  const [first, ...rest] = points;
  if (first === undefined) return '';
  const [reach, last] = rest;
  if (isSelfLoop(points) && reach !== undefined && last !== undefined) {
    const [c1, c2] =
      first.x === last.x
        ? [
            { x: reach.x + LOOP_REACH / 3, y: first.y - 4 },
            { x: reach.x + LOOP_REACH / 3, y: last.y + 4 },
          ]
        : [
            { x: first.x - 4, y: reach.y + LOOP_REACH / 3 },
            { x: last.x + 4, y: reach.y + LOOP_REACH / 3 },
          ];
    return `M${round(first.x)} ${round(first.y)}C${round(c1.x)} ${round(c1.y)} ${round(c2.x)} ${round(c2.y)} ${round(last.x)} ${round(last.y)}`;
  }
  let text = `M${round(first.x)} ${round(first.y)}`;
  let from = first;
  for (const to of rest) {
    const middle = direction === 'down' ? (from.y + to.y) / 2 : (from.x + to.x) / 2;
    const [c1, c2] =
      direction === 'down'
        ? [
            { x: from.x, y: middle },
            { x: to.x, y: middle },
          ]
        : [
            { x: middle, y: from.y },
            { x: middle, y: to.y },
          ];
    text += `C${round(c1.x)} ${round(c1.y)} ${round(c2.x)} ${round(c2.y)} ${round(to.x)} ${round(to.y)}`;
    from = to;
  }
  return text;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Out and in at the same side of a box: the only three points that come back to where they began. */
function isSelfLoop(points: readonly Point[]): boolean {
  const [first, reach, last] = points;
  if (points.length !== 3 || first === undefined || reach === undefined || last === undefined) return false;
  return (
    (first.x === last.x && reach.x > first.x && first.y < last.y && reach.y === (first.y + last.y) / 2) ||
    (first.y === last.y && reach.y > first.y)
  );
}
