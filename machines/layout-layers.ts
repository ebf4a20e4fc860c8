/**
 * A flat layered drawing: boxes in columns so that most links lead to the right, columns ordered so that few links cross.
 * Links that skip columns are led through places of their own, so that no line runs through a box. Pure and
 * deterministic: the order of the input decides every tie.
 */
import { known } from './known.ts';

export interface Box {
  readonly id: string;
  readonly w: number;
  readonly h: number;
}

/** Between boxes of the drawing; at most one for each ordered pair, never from a box to itself. */
export interface Link {
  readonly from: string;
  readonly to: string;
}

export type Point = readonly [x: number, y: number];

export interface Layers {
  /** Left upper corners by id; the drawing begins at 0, 0. */
  readonly at: ReadonlyMap<string, { readonly x: number; readonly y: number }>;
  /** Points from box to box, by `linkKey`. */
  readonly routes: ReadonlyMap<string, readonly Point[]>;
  readonly w: number;
  readonly h: number;
}

export interface Spacing {
  readonly betweenColumns: number;
  readonly betweenRows: number;
}

interface Cell {
  readonly id: string | null;
  readonly w: number;
  readonly h: number;
  readonly rank: number;
  readonly left: Cell[];
  readonly right: Cell[];
  order: number;
  /** Vertical centre. */
  y: number;
}

interface Lane {
  readonly link: Link;
  readonly isReversed: boolean;
  readonly cells: readonly Cell[];
}

const LANE_HEIGHT = 8;
const LANE_GAP = 4;
const SWEEPS = 6;

export function linkKey({ from, to }: Link): string {
  return `${from}\n${to}`;
}

export function layOutLayers(boxes: readonly Box[], links: readonly Link[], spacing: Spacing): Layers {
  const forward = orient(boxes, links);
  const ranks = rank(boxes, forward);
  const columns: Cell[][] = [];
  const cells = new Map<string, Cell>();
  const place = (id: string | null, w: number, h: number, at: number): Cell => {
    const cell: Cell = { id, w, h, rank: at, left: [], right: [], order: 0, y: 0 };
    columns[at] ??= [];
    const column = columns[at];
    cell.order = column.length;
    column.push(cell);
    return cell;
  };
  for (const box of boxes) cells.set(box.id, place(box.id, box.w, box.h, known(ranks.get(box.id))));
  const lanes = forward.map(({ link, isReversed, from, to }): Lane => {
    const first = known(cells.get(from));
    const last = known(cells.get(to));
    const chain = [first];
    for (let at = first.rank + 1; at < last.rank; at += 1) chain.push(place(null, 0, LANE_HEIGHT, at));
    chain.push(last);
    chain.forEach((cell, index) => {
      const next = chain[index + 1];
      if (next === undefined) return;
      cell.right.push(next);
      next.left.push(cell);
    });
    return { link, isReversed, cells: chain };
  });
  orderColumns(columns);
  placeRows(columns, spacing.betweenRows);
  return finish(columns, lanes, spacing.betweenColumns);
}

interface Oriented {
  readonly link: Link;
  readonly isReversed: boolean;
  readonly from: string;
  readonly to: string;
}

/** Turns the links around that lead back on a walk in input order, so that what is left has no cycle. */
function orient(boxes: readonly Box[], links: readonly Link[]): readonly Oriented[] {
  const out = new Map<string, Link[]>();
  for (const link of links) {
    const list = out.get(link.from) ?? [];
    out.set(link.from, list);
    list.push(link);
  }
  const back = new Set<Link>();
  const state = new Map<string, 'open' | 'done'>();
  for (const { id: root } of boxes) {
    if (state.has(root)) continue;
    const stack = [{ id: root, next: 0 }];
    state.set(root, 'open');
    for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
      const link = out.get(frame.id)?.[frame.next];
      frame.next += 1;
      if (link === undefined) {
        state.set(frame.id, 'done');
        stack.pop();
      } else if (state.get(link.to) === 'open') back.add(link);
      else if (!state.has(link.to)) {
        state.set(link.to, 'open');
        stack.push({ id: link.to, next: 0 });
      }
    }
  }
  return links.map((link) =>
    back.has(link)
      ? { link, isReversed: true, from: link.to, to: link.from }
      : { link, isReversed: false, from: link.from, to: link.to },
  );
}

/** A box stands one column to the right of the furthest box that leads to it. */
function rank(boxes: readonly Box[], links: readonly Oriented[]): ReadonlyMap<string, number> {
  const ranks = new Map(boxes.map(({ id }) => [id, 0]));
  const open = new Map(boxes.map(({ id }) => [id, 0]));
  const out = new Map<string, string[]>();
  for (const { from, to } of links) {
    open.set(to, known(open.get(to)) + 1);
    out.set(from, [...(out.get(from) ?? []), to]);
  }
  const ready = boxes.map(({ id }) => id).filter((id) => open.get(id) === 0);
  for (let id = ready.shift(); id !== undefined; id = ready.shift()) {
    for (const to of out.get(id) ?? []) {
      ranks.set(to, Math.max(known(ranks.get(to)), known(ranks.get(id)) + 1));
      const left = known(open.get(to)) - 1;
      open.set(to, left);
      if (left === 0) ready.push(to);
    }
  }
  return ranks;
}

/** Each column is sorted by the mean place of its neighbours, to and fro. */
function orderColumns(columns: readonly Cell[][]): void {
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const isDown = sweep % 2 === 0;
    for (const column of isDown ? columns : [...columns].reverse()) {
      const wanted = new Map(column.map((cell) => [cell, mean(isDown ? cell.left : cell.right, orderOf, cell.order)]));
      column.sort((a, b) => known(wanted.get(a)) - known(wanted.get(b)) || a.order - b.order);
      column.forEach((cell, index) => {
        cell.order = index;
      });
    }
  }
}

/** Moves cells towards their neighbours; the order in a column and the room between its cells stay. */
function placeRows(columns: readonly Cell[][], gap: number): void {
  for (const column of columns) spread(column, gap, () => 0);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const isDown = sweep % 2 === 0;
    for (const column of isDown ? columns : [...columns].reverse()) {
      spread(column, gap, (cell) => mean(isDown ? cell.left : cell.right, yOf, cell.y));
    }
  }
}

function spread(column: readonly Cell[], gap: number, wantedOf: (cell: Cell) => number): void {
  const wanted = column.map(wantedOf);
  let edge = Number.NEGATIVE_INFINITY;
  let shift = 0;
  column.forEach((cell, index) => {
    const above = column[index - 1];
    const room = above === undefined ? 0 : above.id === null && cell.id === null ? LANE_GAP : gap;
    cell.y = Math.max(known(wanted[index]), edge + room + cell.h / 2);
    edge = cell.y + cell.h / 2;
    shift += cell.y - known(wanted[index]);
  });
  // What was pushed down is spread over all, so that the column stays centred on what it belongs to.
  for (const cell of column) cell.y -= shift / column.length;
}

function finish(columns: readonly Cell[][], lanes: readonly Lane[], gap: number): Layers {
  const top = Math.min(0, ...columns.map((column) => Math.min(...column.map((cell) => cell.y - cell.h / 2))));
  const lefts: number[] = [];
  const widths = columns.map((column) => Math.max(0, ...column.map((cell) => cell.w)));
  let x = 0;
  for (const width of widths) {
    lefts.push(x);
    x += width + gap;
  }
  const at = new Map<string, { x: number; y: number }>();
  let h = 0;
  for (const column of columns) {
    for (const cell of column) {
      cell.y -= top;
      h = Math.max(h, cell.y + cell.h / 2);
      if (cell.id !== null) at.set(cell.id, { x: round(known(lefts[cell.rank])), y: round(cell.y - cell.h / 2) });
    }
  }
  const routes = new Map<string, readonly Point[]>();
  for (const { link, isReversed, cells } of lanes) {
    const points = cells.flatMap((cell, index): Point[] => {
      const left = known(lefts[cell.rank]);
      // A lane crosses its whole column, so that it does not cut the corner of a wide box beside it.
      if (cell.id === null) return [point(left, cell.y), point(left + known(widths[cell.rank]), cell.y)];
      return [point(index === 0 ? left + cell.w : left, cell.y)];
    });
    routes.set(linkKey(link), isReversed ? points.reverse() : points);
  }
  return { at, routes, w: round(Math.max(0, x - gap)), h: round(h) };
}

function mean(cells: readonly Cell[], of: (cell: Cell) => number, otherwise: number): number {
  if (cells.length === 0) return otherwise;
  let sum = 0;
  for (const cell of cells) sum += of(cell);
  return sum / cells.length;
}

function orderOf(cell: Cell): number {
  return cell.order;
}

function yOf(cell: Cell): number {
  return cell.y;
}

function point(x: number, y: number): Point {
  return [round(x), round(y)];
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
