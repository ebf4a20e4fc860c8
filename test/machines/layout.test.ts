import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CHARTS } from '../../machines/index.ts';
import { type Layout, type LayoutInput, layOut, layoutOf, type PlacedNode } from '../../machines/layout.ts';
import { outlineOf } from '../../machines/outline.ts';
import { leastProcessorTime } from '../support/processor-time.ts';

function overlap(a: PlacedNode, b: PlacedNode): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

function contains(outer: PlacedNode, inner: PlacedNode): boolean {
  return (
    inner.x >= outer.x &&
    inner.y >= outer.y &&
    inner.x + inner.w <= outer.x + outer.w &&
    inner.y + inner.h <= outer.y + outer.h
  );
}

function expectTidy({ nodes }: Layout): void {
  nodes.forEach((node, index) => {
    for (const other of nodes.slice(index + 1)) {
      if (other.parent === node.parent) expect(overlap(node, other), `${node.id} and ${other.id}`).toBe(false);
    }
    const parent = nodes.find((each) => each.id === node.parent);
    if (parent !== undefined) expect(contains(parent, node), `${node.id} in ${parent.id}`).toBe(true);
  });
}

/** Random trees of boxes with random edges, some of them to boxes that do not exist. */
const graphs = fc
  .record({
    parents: fc.array(fc.nat(), { minLength: 1, maxLength: 24 }),
    edges: fc.array(fc.tuple(fc.nat(25), fc.nat(25)), { maxLength: 40 }),
  })
  .map(
    ({ parents, edges }): LayoutInput => ({
      nodes: parents.map((seed, index) => ({
        id: `n${index}`,
        label: 'x'.repeat(seed % 30),
        // A box lies in an earlier one or in none, so there is no circle.
        parent: index === 0 || seed % 3 !== 0 ? null : `n${seed % index}`,
      })),
      edges: edges.map(([from, to], index) => ({ id: `e${index}`, from: `n${from}`, to: `n${to}`, label: 'e' })),
    }),
  );

test('boxes never overlap and lie within the box around them', () => {
  fc.assert(
    fc.property(graphs, (graph) => {
      expectTidy(layOut(graph));
    }),
    { numRuns: 200 },
  );
});

test('every edge between boxes that exist is led from the one to the other', () => {
  fc.assert(
    fc.property(graphs, (graph) => {
      const { nodes, edges } = layOut(graph);
      const known = new Map(nodes.map((node) => [node.id, node]));
      const wanted = graph.edges.filter((edge) => known.has(edge.from) && known.has(edge.to));
      expect(edges.map((edge) => edge.id)).toEqual(wanted.map((edge) => edge.id));
      for (const { points, from, to } of edges) {
        expect(points.length).toBeGreaterThan(1);
        for (const [id, point] of [
          [from, points[0]],
          [to, points.at(-1)],
        ] as const) {
          const node = known.get(id);
          const [x, y] = point ?? [Number.NaN, Number.NaN];
          // An end lies on a side of its box; a loop stands on its top.
          expect(node !== undefined && x >= node.x - 0.2 && x <= node.x + node.w + 0.2, `${id} ${x}`).toBe(true);
          expect(node !== undefined && y >= node.y - 0.2 && y <= node.y + node.h + 0.2, `${id} ${y}`).toBe(true);
        }
      }
    }),
    { numRuns: 200 },
  );
});

test('the same input gives the same drawing', () => {
  fc.assert(
    fc.property(graphs, (graph) => {
      expect(layOut(structuredClone(graph))).toEqual(layOut(graph));
    }),
    { numRuns: 50 },
  );
});

test.each(CHARTS.map((chart) => [chart.name, chart] as const))('the chart %s is laid out tidily', (_name, chart) => {
  const layout = layoutOf(chart);
  expect(layout.nodes).toHaveLength(outlineOf(chart.machine).states.length);
  expect(layout.edges).toHaveLength(outlineOf(chart.machine).transitions.length);
  expectTidy(layout);
});

test('a straight chain runs in one row from left to right', () => {
  const ids = ['a', 'b', 'c'];
  const { nodes } = layOut({
    nodes: ids.map((id) => ({ id, label: id, parent: null })),
    edges: [
      { id: 'ab', from: 'a', to: 'b', label: '' },
      { id: 'bc', from: 'b', to: 'c', label: '' },
    ],
  });
  expect(new Set(nodes.map((node) => node.y)).size).toBe(1);
  expect(nodes.map((node) => node.x)).toEqual([...nodes.map((node) => node.x)].sort((a, b) => a - b));
});

test('an empty graph is an empty drawing', () => {
  expect(layOut({ nodes: [], edges: [] })).toEqual({ nodes: [], edges: [], w: 0, h: 0 });
});

test('the layout of a chart is made once', () => {
  for (const chart of CHARTS) expect(layoutOf(chart)).toBe(layoutOf(chart));
});

/** So many boxes with twice as many arrows. */
function graphOf(count: number): LayoutInput {
  return {
    nodes: Array.from({ length: count }, (_, index) => ({ id: `s${index}`, label: `step ${index}`, parent: null })),
    edges: Array.from({ length: 2 * count }, (_, index) => ({
      id: `e${index}`,
      from: `s${(index * 7) % count}`,
      to: `s${(index * 13 + (index % 11)) % count}`,
      label: 'next',
    })),
  };
}

test('four times the boxes take less than the third power of that, and two hundred less than a glance', () => {
  const [fifty, twoHundred] = [50, 200].map((count) => {
    const graph = graphOf(count);
    return leastProcessorTime(() => layOut(graph));
  });
  expect(twoHundred).toBeLessThan(64 * (fifty ?? 0));
  // 0.08 s where nothing else runs; under the counters of coverage on a slow machine several times that.
  expect(twoHundred).toBeLessThan(1_000);
});
