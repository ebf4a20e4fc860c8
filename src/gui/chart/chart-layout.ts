/** A chart laid out from the inside: what a state holds gives its size, and arrows that cross its border start at it. Pure. */
import { layoutGraph } from '../graph/layout.ts';
import { LOOP_REACH, type Point } from '../graph/route-path.ts';
import type { ChartArrow, ChartModel, ChartState } from './chart-model.ts';

export interface StateBox {
  readonly state: ChartState;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly compound: boolean;
}

export interface ArrowPath {
  readonly arrow: ChartArrow;
  readonly points: readonly Point[];
  readonly direction: 'down' | 'right';
  readonly label: Point | null;
}

export interface ChartLayout {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly StateBox[];
  readonly arrows: readonly ArrowPath[];
}

const CHAR = 7.4;
const LABEL_CHAR = 6.7;
export const LABEL_LINE = 16;
const HEADER = 56;
const FRAME = 20;
const LEAF = { least: 120, height: 50, pad: 34 };

interface Level {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly StateBox[];
  readonly arrows: readonly ArrowPath[];
}

export function layoutChart(model: ChartModel): ChartLayout {
  return layoutLevel(model, null);
}

function layoutLevel(model: ChartModel, parent: string | null): Level {
  // Levels turn by turn: a chart of two levels then fits a page in both directions.
  const direction = parent === null ? 'down' : 'right';
  const states = model.states.filter((state) => state.parent === parent);
  const inside = new Map(
    states
      .filter((state) => model.states.some((each) => each.parent === state.id))
      .map((state) => [state.id, layoutLevel(model, state.id)]),
  );
  const ancestor = (id: string): string | null =>
    states.find((state) => id === state.id || id.startsWith(`${state.id}.`))?.id ?? null;
  const arrows = model.arrows.flatMap((arrow) => {
    const from = ancestor(arrow.from);
    const to = ancestor(arrow.to);
    const staysInside = from === to && arrow.from !== arrow.to;
    return from === null || to === null || staysInside ? [] : [{ arrow, from, to }];
  });
  // Downwards, an arrow back to its own state and its label get room beside it.
  const besides = new Map(
    arrows
      .filter(({ from, to }) => from === to && direction === 'down')
      .map(({ arrow, from }) => [from, LOOP_REACH + labelWidth(arrow)]),
  );
  const drawn = layoutGraph(
    states.map((state) => {
      return { id: state.id, ...sizeOf(state, inside.get(state.id)), beside: besides.get(state.id) ?? 0 };
    }),
    arrows.map(({ arrow, from, to }) => ({
      id: arrow.id,
      from,
      to,
      label: {
        width: labelWidth(arrow),
        height: arrow.lines.length * LABEL_LINE + 4,
      },
    })),
    { direction, layerGap: direction === 'down' ? 30 : 44, nodeGap: 26 },
  );
  const routes = new Map(drawn.routes.map((route) => [route.id, route]));
  const boxes: StateBox[] = [];
  const paths: ArrowPath[] = arrows.flatMap(({ arrow }) => {
    const route = routes.get(arrow.id);
    if (route === undefined) return [];
    const { points } = route;
    const far = points[1] ?? { x: 0, y: 0 };
    const beside = labelWidth(arrow) / 2;
    const loop = direction === 'down' ? { x: far.x + beside, y: far.y } : { x: far.x, y: far.y + LABEL_LINE };
    return [{ arrow, direction, points, label: route.label ?? loop }];
  });
  let bottom = drawn.height;
  let right = drawn.width;
  for (const state of states) {
    const place = drawn.nodes.get(state.id);
    if (place === undefined) continue;
    const inner = inside.get(state.id);
    const { x, y, width, height } = place;
    boxes.push({ state, x, y, width, height, compound: inner !== undefined });
    if (inner === undefined) continue;
    const dx = place.x + (place.width - inner.width) / 2;
    const dy = place.y + HEADER;
    boxes.push(...inner.boxes.map((box) => ({ ...box, x: box.x + dx, y: box.y + dy })));
    paths.push(
      ...inner.arrows.map((path) => ({
        ...path,
        points: path.points.map((point) => ({ x: point.x + dx, y: point.y + dy })),
        label: path.label === null ? null : { x: path.label.x + dx, y: path.label.y + dy },
      })),
    );
  }
  for (const path of paths) {
    if (path.label === null) continue;
    bottom = Math.max(bottom, path.label.y + (path.arrow.lines.length * LABEL_LINE) / 2);
    right = Math.max(right, path.label.x + labelWidth(path.arrow) / 2);
  }
  return { width: right, height: bottom, boxes, arrows: paths };
}

export function labelWidth(arrow: ChartArrow): number {
  return Math.max(...arrow.lines.map((line) => line.length)) * LABEL_CHAR + 10;
}

function sizeOf(state: ChartState, inner: Level | undefined): { readonly width: number; readonly height: number } {
  const name = state.name.length * CHAR + LEAF.pad;
  if (inner === undefined) {
    const hasSub = state.inner.length > 0;
    return { width: Math.max(LEAF.least, name, hasSub ? 150 : 0), height: hasSub ? LEAF.height : LEAF.height - 8 };
  }
  return { width: Math.max(inner.width + 2 * FRAME, name, 220), height: inner.height + HEADER + FRAME };
}
