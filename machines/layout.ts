/**
 * Where the states of a chart, or the steps of a playbook, stand: boxes within boxes, each level laid out in layers, and
 * the way of each edge. Coordinates are absolute, so a viewer draws what it gets. Pure and deterministic.
 */
import type { Chart } from './index.ts';
import { known } from './known.ts';
import { type Box, type Layers, type Link, layOutLayers, linkKey, type Point } from './layout-layers.ts';
import { outlineOf } from './outline.ts';

export interface LayoutInput {
  /** A parent is one of the nodes. */
  readonly nodes: readonly { readonly id: string; readonly label: string; readonly parent: string | null }[];
  readonly edges: readonly {
    readonly id: string;
    readonly from: string;
    readonly to: string;
    readonly label: string;
  }[];
}

export interface PlacedNode {
  readonly id: string;
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
  readonly parent: string | null;
}

export interface PlacedEdge {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly points: readonly Point[];
}

export interface Layout {
  readonly nodes: readonly PlacedNode[];
  readonly edges: readonly PlacedEdge[];
  readonly w: number;
  readonly h: number;
}

const CHAR_WIDTH = 8;
const BOX = { widthMin: 120, padding: 16, height: 48 };
const FRAME = { padding: 24, header: 36 };
const ROWS = 28;
const COLUMNS = { least: 72, most: 260 };
/** Edges between the same boxes run this far apart. */
const PARALLEL = 14;
const LOOP = 22;

export function layOut({ nodes, edges }: LayoutInput): Layout {
  const parents = new Map(nodes.map(({ id, parent }) => [id, parent]));
  const joining = edges.filter(({ from, to }) => parents.has(from) && parents.has(to));
  const inside = groupBy(nodes, (node) => node.parent);
  const paths = new Map(nodes.map(({ id }) => [id, pathOf(id, parents)]));
  const meetings = joining.map((edge) => meetingOf(known(paths.get(edge.from)), known(paths.get(edge.to))));
  const linksAt = new Map<string | null, Map<string, Link>>();
  for (const meeting of meetings) {
    if (meeting === null) continue;
    const links = linksAt.get(meeting.level) ?? new Map<string, Link>();
    linksAt.set(meeting.level, links);
    links.set(linkKey(meeting.link), meeting.link);
  }
  const labels = Math.max(0, ...joining.map(({ label }) => label.length));
  const betweenColumns = Math.min(COLUMNS.most, Math.max(COLUMNS.least, labels * 6));

  const levels = new Map<string | null, Layers>();
  const sizes = new Map<string, Box>();
  /** Inner levels first: the size of a box is that of what it holds. */
  const measure = (level: string | null): Layers => {
    const boxes = (inside.get(level) ?? []).map(({ id, label }): Box => {
      const least = Math.max(BOX.widthMin, label.length * CHAR_WIDTH + 2 * BOX.padding);
      const box = inside.has(id) ? frameOf(id, measure(id), least) : { id, w: least, h: BOX.height };
      sizes.set(id, box);
      return box;
    });
    const links = [...(linksAt.get(level)?.values() ?? [])];
    const layers = layOutLayers(boxes, links, { betweenColumns, betweenRows: ROWS });
    levels.set(level, layers);
    return layers;
  };
  const whole = measure(null);

  const placed = new Map<string, PlacedNode>();
  const place = (level: string | null, x: number, y: number): void => {
    for (const { id } of inside.get(level) ?? []) {
      const at = known(levels.get(level)?.at.get(id));
      const { w, h } = known(sizes.get(id));
      placed.set(id, { id, x: x + at.x, y: y + at.y, w, h, parent: level });
      if (inside.has(id)) place(id, x + at.x + FRAME.padding, y + at.y + FRAME.header);
    }
  };
  place(null, 0, 0);

  const used = new Map<string, number>();
  const routed = joining.map((edge, index): PlacedEdge => {
    const pair = linkKey(edge);
    const nth = used.get(pair) ?? 0;
    used.set(pair, nth + 1);
    const from = known(placed.get(edge.from));
    const to = known(placed.get(edge.to));
    const meeting = known(meetings[index]);
    if (edge.from === edge.to) return { ...pick(edge), points: loopOn(from, nth) };
    if (meeting === null) return { ...pick(edge), points: [anchor(from, to, nth), anchor(to, from, nth)] };
    const frame = meeting.level === null ? null : placed.get(meeting.level);
    const origin: Point = frame ? [frame.x + FRAME.padding, frame.y + FRAME.header] : [0, 0];
    const route = known(levels.get(meeting.level)?.routes.get(linkKey(meeting.link)));
    const points = route.map(([x, y]): Point => [x + origin[0], y + origin[1] + shiftOf(edge, nth)]);
    const ends = { start: points[0], end: points.at(-1) };
    // An edge of an inner state leaves from that state, through the side of the box around it.
    if (meeting.link.from !== edge.from && ends.start) points.unshift(sideTowards(from, ends.start));
    if (meeting.link.to !== edge.to && ends.end) points.push(sideTowards(to, ends.end));
    return { ...pick(edge), points };
  });
  return { nodes: nodes.map(({ id }) => known(placed.get(id))), edges: routed, w: whole.w, h: whole.h };
}

const chartLayouts = new WeakMap<object, Layout>();

/** The layout of a chart; made once. An edge that stays in its state is a loop on it. */
export function layoutOf({ machine }: Pick<Chart, 'machine'>): Layout {
  let layout = chartLayouts.get(machine);
  if (layout === undefined) {
    const { states, transitions } = outlineOf(machine);
    layout = layOut({
      nodes: states.map(({ id, name, parent }) => ({ id, label: name, parent })),
      edges: transitions.map(({ id, from, to, event }) => ({ id, from, to: to ?? from, label: event })),
    });
    chartLayouts.set(machine, layout);
  }
  return layout;
}

interface Meeting {
  readonly level: string | null;
  readonly link: Link;
}

/** The level at which an edge runs, and the boxes it connects there; null where one end lies within the other. */
function meetingOf(from: readonly string[], to: readonly string[]): Meeting | null {
  let depth = 0;
  while (depth < from.length && depth < to.length && from[depth] === to[depth]) depth += 1;
  const [a, b] = [from[depth], to[depth]];
  if (a === undefined || b === undefined) return null;
  return { level: depth === 0 ? null : known(from[depth - 1]), link: { from: a, to: b } };
}

/** Ids from the outermost box to this one. */
function pathOf(id: string, parents: ReadonlyMap<string, string | null>): readonly string[] {
  const path: string[] = [];
  for (let at: string | null = id; at !== null && !path.includes(at); at = parents.get(at) ?? null) path.unshift(at);
  return path;
}

function frameOf(id: string, inner: Layers, widthMin: number): Box {
  return {
    id,
    w: Math.max(widthMin, inner.w + 2 * FRAME.padding),
    h: inner.h + FRAME.header + FRAME.padding,
  };
}

/** Edges of a pair lie side by side, and those of the opposite direction on the other side. */
function shiftOf({ from, to }: Link, nth: number): number {
  const side = from < to ? 1 : -1;
  return side * Math.min(BOX.height / 2 - 2, 4 + nth * PARALLEL);
}

function loopOn({ x, y, w }: PlacedNode, nth: number): readonly Point[] {
  const right = x + w - 12 - nth * 4;
  const up = y - LOOP / 2 - nth * 3;
  return [
    [right - LOOP, y],
    [right - LOOP, up],
    [right, up],
    [right, y],
  ];
}

function anchor(node: PlacedNode, other: PlacedNode, nth: number): Point {
  const right = other.x + other.w / 2 >= node.x + node.w / 2;
  return [right ? node.x + node.w : node.x, node.y + node.h / 2 + shiftOf({ from: node.id, to: other.id }, nth)];
}

function sideTowards({ x, y, w, h }: PlacedNode, [px]: Point): Point {
  return [px >= x + w / 2 ? x + w : x, y + h / 2];
}

function pick({ id, from, to }: LayoutInput['edges'][number]) {
  return { id, from, to };
}

function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return groups;
}
