/** The order of boxes within the layers of a drawing. */

/** A box or an invisible node on its way; `across` runs along the layer, `along` from layer to layer. */
export interface Item {
  readonly id: string | null;
  readonly edge: number | null;
  readonly isLabel: boolean;
  readonly across: number;
  /** Of `across`, how long the side is that edges may touch; the rest is kept free around it. */
  readonly side: number;
  readonly along: number;
  layer: number;
  order: number;
  at: number;
  readonly up: Item[];
  readonly down: Item[];
}

const SWEEPS = 8;

export function inLayers(items: readonly Item[]): Item[][] {
  const layers: Item[][] = [];
  for (const item of items) {
    while (layers.length <= item.layer) layers.push([]);
    const layer = layers[item.layer]!;
    item.order = layer.length;
    layer.push(item);
  }
  return layers;
}

/** Sorts each layer by the mean place of its neighbours, down and up again, and keeps the order with fewest crossings. */
export function orderLayers(layers: Item[][]): void {
  let best = layers.map((layer) => [...layer]);
  let fewest = crossings(layers);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    const down = sweep % 2 === 0;
    const sequence = down ? layers : [...layers].reverse();
    for (const layer of sequence) {
      const wish = new Map(layer.map((item) => [item, meanOrder(down ? item.up : item.down, item.order)]));
      layer.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0) || a.order - b.order);
      layer.forEach((item, order) => {
        item.order = order;
      });
    }
    const count = crossings(layers);
    if (count < fewest) {
      fewest = count;
      best = layers.map((layer) => [...layer]);
    }
  }
  best.forEach((layer, index) => {
    layers[index] = layer;
    layer.forEach((item, order) => {
      item.order = order;
    });
  });
}

function meanOrder(neighbours: readonly Item[], otherwise: number): number {
  if (neighbours.length === 0) return otherwise;
  return neighbours.reduce((sum, each) => sum + each.order, 0) / neighbours.length;
}

/** Pairs of links between neighbouring layers that cross: inversions, counted by a tree of sums. */
function crossings(layers: readonly (readonly Item[])[]): number {
  let total = 0;
  for (const layer of layers) {
    const targets = layer.flatMap((item) => item.down.map((each) => each.order).sort((a, b) => a - b));
    const size = Math.max(0, ...targets) + 1;
    const tree = new Int32Array(size + 1);
    targets.forEach((target, seen) => {
      let notGreater = 0;
      for (let i = target + 1; i > 0; i -= i & -i) notGreater += tree[i] ?? 0;
      total += seen - notGreater;
      for (let i = target + 1; i <= size; i += i & -i) tree[i] = (tree[i] ?? 0) + 1;
    });
  }
  return total;
}
