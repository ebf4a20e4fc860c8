/**
 * A layered drawing of a directed graph. Back edges (found from the entry, in the order the nodes are given) are turned
 * round for the layering only, so retry loops leave the spine alone. Long edges pass through invisible nodes, and an
 * edge label is a node of its own, so neither ever lies under a box. Positions along a layer are the least squares
 * fit to the neighbours under the required distances, which is what makes chains straight. Pure and deterministic.
 */
import { type Item, inLayers, orderLayers } from './layer-order.ts';
import { LOOP_REACH, type Point } from './route-path.ts';

export interface LayoutNode {
  readonly id: string;
  readonly width: number;
  readonly height: number;
  /** Room beside the box, for an edge to itself and its label; on both sides, so that the box stays in the middle. */
  readonly beside?: number;
}

export interface LayoutEdge {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly label?: { readonly width: number; readonly height: number };
}

export interface Placed extends LayoutNode {
  /** Top left corner. */
  readonly x: number;
  readonly y: number;
}

export interface Route {
  readonly id: string;
  /** From source to target; smooth between them. */
  readonly points: readonly Point[];
  readonly back: boolean;
  /** Middle of the label, when the edge has one. */
  readonly label: Point | null;
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly nodes: ReadonlyMap<string, Placed>;
  readonly routes: readonly Route[];
}

export interface LayoutOptions {
  readonly direction: 'down' | 'right';
  /** Between layers, in px. */
  readonly layerGap: number;
  /** Between neighbours of a layer, in px. */
  readonly nodeGap: number;
}

const SETTLE_PASSES = 10;
const INVISIBLE = 12;
/** Edges with a label leave a wide box at least so far from its corners and from each other, in px. */
const CORNER = 24;
const APART = 16;

export function layoutGraph(
  nodes: readonly LayoutNode[],
  edges: readonly LayoutEdge[],
  options: LayoutOptions,
): Layout {
  const flat = options.direction === 'down';
  const items = nodes.map((each) => {
    const [side, along] = flat ? [each.width, each.height] : [each.height, each.width];
    return newItem({ id: each.id, across: side + 2 * (each.beside ?? 0), side, along });
  });
  const byId = new Map(items.map((item) => [item.id, item]));
  const known = edges
    .map((edge, index) => ({ edge, index }))
    .filter(({ edge }) => byId.has(edge.from) && byId.has(edge.to));
  const back = backEdges(
    nodes,
    known.map(({ edge }) => edge),
  );
  const hasLabels = known.some(({ edge }) => edge.label !== undefined && edge.from !== edge.to);

  const links = known.flatMap(({ edge, index }) => {
    const [from, to] = back.has(edge) ? [edge.to, edge.from] : [edge.from, edge.to];
    const upper = byId.get(from);
    const lower = byId.get(to);
    return upper === undefined || lower === undefined || upper === lower ? [] : [{ edge, index, upper, lower }];
  });
  assignLayers(items, links, hasLabels ? 2 : 1);

  const all = [...items];
  const chains = new Map<number, Item[]>();
  for (const { edge, index, upper, lower } of links) {
    const chain = [upper];
    const middle = Math.floor((upper.layer + lower.layer) / 2);
    for (let layer = upper.layer + 1; layer < lower.layer; layer++) {
      const label = edge.label !== undefined && layer === middle ? edge.label : null;
      const across = label === null ? INVISIBLE : flat ? label.width : label.height;
      const along = label === null ? 0 : flat ? label.height : label.width;
      const item = newItem({ edge: index, across, along, isLabel: label !== null });
      item.layer = layer;
      all.push(item);
      chain.push(item);
    }
    chain.push(lower);
    for (let i = 1; i < chain.length; i++) {
      chain[i - 1]?.down.push(chain[i]!);
      chain[i]?.up.push(chain[i - 1]!);
    }
    chains.set(index, chain);
  }

  const layers = inLayers(all);
  orderLayers(layers);
  settle(layers, options.nodeGap);

  const tops: number[] = [];
  let along = 0;
  const depth = layers.map((layer) => Math.max(0, ...layer.map((item) => item.along)));
  layers.forEach((_, index) => {
    tops.push(along);
    along += (depth[index] ?? 0) + options.layerGap / (hasLabels ? 2 : 1);
  });
  const middleOf = (item: Item) => (tops[item.layer] ?? 0) + (depth[item.layer] ?? 0) / 2;

  const least = Math.min(...all.map((item) => item.at - item.side / 2));
  for (const item of all) item.at -= least;

  const placed = new Map<string, Placed>();
  nodes.forEach((node, index) => {
    const item = items[index]!;
    const x = flat ? item.at - node.width / 2 : middleOf(item) - node.width / 2;
    const y = flat ? middleOf(item) - node.height / 2 : item.at - node.height / 2;
    placed.set(node.id, { ...node, x, y });
  });

  const ports = portsOf(chains);
  const routes = known.map(({ edge, index }): Route => {
    const chain = chains.get(index);
    if (chain === undefined) return selfLoop(edge.id, placed.get(edge.from)!, flat);
    const track = chain.map((item, place) => {
      const offset =
        place === 0 ? (ports.get(`d${index}`) ?? 0) : place === chain.length - 1 ? (ports.get(`u${index}`) ?? 0) : 0;
      const edgeSide = place === 0 ? item.along / 2 : place === chain.length - 1 ? -item.along / 2 : 0;
      const a = item.at + offset;
      const b = middleOf(item) + edgeSide;
      return flat ? { x: a, y: b } : { x: b, y: a };
    });
    const labelled = chain.find((item) => item.isLabel);
    const label =
      labelled === undefined
        ? null
        : flat
          ? { x: labelled.at, y: middleOf(labelled) }
          : { x: middleOf(labelled), y: labelled.at };
    const isBack = back.has(edge);
    return { id: edge.id, points: isBack ? track.reverse() : track, back: isBack, label };
  });

  const extents = routes.flatMap((each) => each.points);
  const boxes = [...placed.values()];
  return {
    width: Math.max(
      0,
      ...boxes.map((each) => each.x + each.width),
      ...extents.map((each) => each.x),
      ...all.map((item) => (flat ? item.at + item.side / 2 : 0)),
    ),
    height: Math.max(
      0,
      ...boxes.map((each) => each.y + each.height),
      ...extents.map((each) => each.y),
      ...all.map((item) => (flat ? 0 : item.at + item.side / 2)),
    ),
    nodes: placed,
    routes,
  };
}

function newItem(given: Pick<Item, 'across' | 'along'> & Partial<Item>): Item {
  const start = { layer: 0, order: 0, at: 0, up: [], down: [] };
  return { id: null, edge: null, isLabel: false, side: given.across, ...start, ...given };
}

/** Edges that lead back to a node whose walk is not finished. Iterative, for long chains. */
function backEdges(nodes: readonly LayoutNode[], edges: readonly LayoutEdge[]): ReadonlySet<LayoutEdge> {
  const out = new Map<string, LayoutEdge[]>(nodes.map((each) => [each.id, []]));
  for (const edge of edges) out.get(edge.from)?.push(edge);
  const back = new Set<LayoutEdge>();
  const state = new Map<string, 'open' | 'done'>();
  for (const { id } of nodes) {
    if (state.has(id)) continue;
    const stack = [{ id, next: 0 }];
    state.set(id, 'open');
    for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
      const edge = out.get(frame.id)?.[frame.next];
      frame.next += 1;
      if (edge === undefined) {
        state.set(frame.id, 'done');
        stack.pop();
      } else if (state.get(edge.to) === 'open') {
        back.add(edge);
      } else if (!state.has(edge.to)) {
        state.set(edge.to, 'open');
        stack.push({ id: edge.to, next: 0 });
      }
    }
  }
  return back;
}

/** Longest path from the sources; what has successors only further down is drawn close to them. */
function assignLayers(
  items: readonly Item[],
  links: readonly { readonly upper: Item; readonly lower: Item }[],
  step: number,
): void {
  const incoming = new Map<Item, number>(items.map((item) => [item, 0]));
  const below = new Map<Item, Item[]>(items.map((item) => [item, []]));
  for (const { upper, lower } of links) {
    incoming.set(lower, (incoming.get(lower) ?? 0) + 1);
    below.get(upper)?.push(lower);
  }
  const queue = items.filter((item) => incoming.get(item) === 0);
  for (let at = 0; at < queue.length; at++) {
    const item = queue[at]!;
    for (const lower of below.get(item) ?? []) {
      lower.layer = Math.max(lower.layer, item.layer + step);
      const left = (incoming.get(lower) ?? 1) - 1;
      incoming.set(lower, left);
      if (left === 0) queue.push(lower);
    }
  }
}

/** Moves every layer towards its neighbours, alternating directions; the last passes look both ways. */
function settle(layers: readonly Item[][], gap: number): void {
  for (const layer of layers)
    pack(
      layer,
      layer.map((_, index) => index * 10),
      gap,
    );
  for (let pass = 0; pass < SETTLE_PASSES; pass++) {
    const both = pass >= SETTLE_PASSES - 4;
    const sequence = pass % 2 === 0 ? layers : [...layers].reverse();
    for (const layer of sequence) {
      const wishes = layer.map((item) => {
        const near = both ? [...item.up, ...item.down] : pass % 2 === 0 ? item.up : item.down;
        if (near.length === 0) return item.at;
        return near.reduce((sum, each) => sum + pullOf(item, each), 0) / near.length;
      });
      pack(layer, wishes, gap);
    }
  }
}

/** Where `near` would like `item`: of two boxes the wider draws a label only to its side, so that the edge runs straight. */
function pullOf(item: Item, near: Item): number {
  if (!item.isLabel || near.id === null) return near.at;
  const isAbove = item.up.includes(near);
  const other = (isAbove ? item.down : item.up)[0];
  if ((isAbove ? near.down : near.up).length === 1) return near.at;
  return other === undefined || other.side >= near.side ? near.at : near.at + alongSide(near, other.at);
}

/** The place on the side of a box that is nearest to `at`, from its middle. */
function alongSide(box: Item, at: number): number {
  const reach = Math.max(0, box.side / 2 - CORNER);
  return Math.min(reach, Math.max(-reach, at - box.at));
}

/**
 * Places as near as possible to the wishes, in order and without touching: with the distances taken out this is a
 * monotone regression, solved by merging neighbours that would swap. Invisible nodes weigh more, for straight lines.
 */
function pack(layer: readonly Item[], wishes: readonly number[], gap: number): void {
  const shifts: number[] = [];
  let shift = 0;
  layer.forEach((item, index) => {
    const before = layer[index - 1];
    if (before !== undefined) shift += (before.across + item.across) / 2 + gap;
    shifts.push(shift);
  });
  const blocks: { sum: number; weight: number; count: number }[] = [];
  layer.forEach((item, index) => {
    const weight = item.id === null ? 4 : 1;
    blocks.push({ sum: ((wishes[index] ?? 0) - (shifts[index] ?? 0)) * weight, weight, count: 1 });
    for (;;) {
      const last = blocks.at(-1);
      const before = blocks.at(-2);
      if (last === undefined || before === undefined || before.sum / before.weight <= last.sum / last.weight) break;
      before.sum += last.sum;
      before.weight += last.weight;
      before.count += last.count;
      blocks.pop();
    }
  });
  let index = 0;
  for (const block of blocks) {
    for (let i = 0; i < block.count; i++, index++) {
      const item = layer[index];
      if (item !== undefined) item.at = block.sum / block.weight + (shifts[index] ?? 0);
    }
  }
}

/** An end of an edge at the side of a box, and where the edge comes from or goes to. */
interface Touch {
  readonly key: string;
  readonly to: number;
  readonly isLabel: boolean;
}

/**
 * Where edges touch a box. Edges with labels go straight to them where the side is long enough; others are spread along
 * the middle in the order of where they lead, so parallel edges stay apart.
 */
function portsOf(chains: ReadonlyMap<number, readonly Item[]>): ReadonlyMap<string, number> {
  const sides = new Map<Item, { up: Touch[]; down: Touch[] }>();
  const sideOf = (item: Item) => {
    const found = sides.get(item) ?? { up: [], down: [] };
    sides.set(item, found);
    return found;
  };
  for (const [index, chain] of chains) {
    const [first, second] = chain;
    const last = chain.at(-1);
    const beforeLast = chain.at(-2);
    if (first === undefined || second === undefined || last === undefined || beforeLast === undefined) continue;
    sideOf(first).down.push({ key: `d${index}`, to: second.at, isLabel: second.isLabel });
    sideOf(last).up.push({ key: `u${index}`, to: beforeLast.at, isLabel: beforeLast.isLabel });
  }
  const ports = new Map<string, number>();
  for (const [item, { up, down }] of sides) {
    for (const side of [up, down]) {
      side.sort((a, b) => a.to - b.to);
      const straight = side.map(({ to }) => alongSide(item, to));
      const isRoomy = straight.every((place, index) => index === 0 || place - (straight[index - 1] ?? 0) >= APART);
      if (side.length > 1 && isRoomy && side.every(({ isLabel }) => isLabel)) {
        side.forEach(({ key }, index) => {
          ports.set(key, straight[index] ?? 0);
        });
        continue;
      }
      const spread = Math.min(28, (item.side * 0.7) / Math.max(1, side.length));
      side.forEach(({ key }, place) => {
        ports.set(key, (place - (side.length - 1) / 2) * spread);
      });
    }
  }
  return ports;
}

/** Out at one side of the box and in again. */
function selfLoop(id: string, box: Placed, flat: boolean): Route {
  const right = box.x + box.width;
  const bottom = box.y + box.height;
  const points = flat
    ? [
        { x: right, y: box.y + box.height * 0.3 },
        { x: right + LOOP_REACH, y: box.y + box.height * 0.5 },
        { x: right, y: box.y + box.height * 0.7 },
      ]
    : [
        { x: box.x + box.width * 0.35, y: bottom },
        { x: box.x + box.width * 0.5, y: bottom + LOOP_REACH },
        { x: box.x + box.width * 0.65, y: bottom },
      ];
  return { id, points, back: true, label: null };
}
