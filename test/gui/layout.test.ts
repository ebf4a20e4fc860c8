/** The layout of graphs: nothing overlaps, chains are straight, and a large playbook is drawn at once. */
import { describe, expect, test } from 'vitest';
import { type LayoutEdge, type LayoutNode, layoutGraph } from '../../src/gui/graph/layout.ts';
import { pathOf } from '../../src/gui/graph/route-path.ts';
import { leastProcessorTime } from '../support/processor-time.ts';

const OPTIONS = { direction: 'down', layerGap: 48, nodeGap: 24 } as const;

function node(id: string): LayoutNode {
  return { id, width: 180, height: 50 };
}

function edge(from: string, to: string): LayoutEdge {
  return { id: `${from}>${to}`, from, to };
}

function overlaps(nodes: ReturnType<typeof layoutGraph>['nodes']): readonly string[] {
  const boxes = [...nodes.values()];
  return boxes.flatMap((a, index) =>
    boxes
      .slice(index + 1)
      .filter((b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)
      .map((b) => `${a.id} and ${b.id}`),
  );
}

/** Layers of ten with arcs forward, some far, some back, as a seeded sequence chooses. */
function large(count: number): { nodes: LayoutNode[]; edges: LayoutEdge[] } {
  let seed = 42;
  const next = (below: number): number => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % below;
  };
  const nodes = Array.from({ length: count }, (_, index) => node(`s${index}`));
  const edges: LayoutEdge[] = [];
  for (let index = 1; index < count; index++) {
    edges.push(edge(`s${Math.max(0, index - 1 - next(10))}`, `s${index}`));
    if (next(3) === 0) edges.push({ ...edge(`s${next(index)}`, `s${index}`), id: `far${index}` });
    if (next(12) === 0) edges.push({ ...edge(`s${index}`, `s${next(index)}`), id: `back${index}` });
  }
  return { nodes, edges };
}

describe('layout', () => {
  test('a chain runs straight down', () => {
    const { nodes } = layoutGraph(['a', 'b', 'c'].map(node), [edge('a', 'b'), edge('b', 'c')], OPTIONS);
    expect(new Set([...nodes.values()].map((each) => each.x)).size).toBe(1);
    expect([...nodes.values()].map((each) => each.y)).toEqual([0, 98, 196]);
  });

  test('the join of a diamond stands below its fork', () => {
    const { nodes } = layoutGraph(
      ['a', 'b', 'c', 'd'].map(node),
      [edge('a', 'b'), edge('a', 'c'), edge('b', 'd'), edge('c', 'd')],
      OPTIONS,
    );
    expect(nodes.get('d')?.x).toBeCloseTo(nodes.get('a')?.x ?? Number.NaN);
    expect(nodes.get('b')?.y).toBe(nodes.get('c')?.y);
  });

  test('a retry loop leaves the spine alone and is marked as leading back', () => {
    const { nodes, routes } = layoutGraph(['a', 'b'].map(node), [edge('a', 'b'), edge('b', 'a')], OPTIONS);
    expect(nodes.get('a')?.x).toBe(nodes.get('b')?.x);
    const [forth, back] = routes;
    expect([forth?.back, back?.back]).toEqual([false, true]);
    expect(back?.points[0]?.y).toBeGreaterThan(back?.points.at(-1)?.y ?? Number.NaN);
    expect(back?.points[0]?.x).not.toBe(forth?.points.at(-1)?.x);
  });

  test('an arc to itself stays inside the drawing', () => {
    const { width, routes } = layoutGraph([node('a')], [edge('a', 'a')], OPTIONS);
    expect(Math.max(...(routes[0]?.points ?? []).map((each) => each.x))).toBeLessThanOrEqual(width);
  });

  test('an arc to a step that does not exist is left out', () => {
    expect(layoutGraph([node('a')], [edge('a', 'b')], OPTIONS).routes).toEqual([]);
  });

  test('labels lie between the boxes', () => {
    const labelled = { ...edge('a', 'b'), label: { width: 90, height: 18 } };
    const { nodes, routes } = layoutGraph(['a', 'b'].map(node), [labelled], { ...OPTIONS, direction: 'right' });
    const a = nodes.get('a');
    const b = nodes.get('b');
    expect(routes[0]?.label?.x).toBeGreaterThan((a?.x ?? 0) + (a?.width ?? 0) + 45);
    expect(routes[0]?.label?.x).toBeLessThan((b?.x ?? 0) - 45);
  });

  test('nothing overlaps and nothing is cut off', () => {
    const { nodes, edges } = large(120);
    const drawn = layoutGraph(nodes, edges, OPTIONS);
    expect(overlaps(drawn.nodes)).toEqual([]);
    for (const { points } of drawn.routes) {
      for (const point of points) {
        expect(point.x).toBeGreaterThanOrEqual(0);
        expect(point.x).toBeLessThanOrEqual(drawn.width);
      }
    }
  });

  test('four times the steps take less than the third power of that, and 200 less than a glance', () => {
    const [fifty, twoHundred] = [50, 200].map((count) => {
      const { nodes, edges } = large(count);
      return leastProcessorTime(() => layoutGraph(nodes, edges, OPTIONS));
    });
    expect(twoHundred).toBeLessThan(64 * (fifty ?? 0));
    expect(twoHundred).toBeLessThan(500);
  });

  test('a path starts and ends at the ends of its route', () => {
    expect(
      pathOf(
        [
          { x: 1, y: 2 },
          { x: 3, y: 4 },
        ],
        'down',
      ),
    ).toBe('M1 2C1 3 3 3 3 4');
    expect(pathOf([], 'down')).toBe('');
  });

  test('edges with labels leave a wide box straight down to what they lead to', () => {
    const wide = { id: 'wide', width: 600, height: 100 };
    const label = { width: 110, height: 20 };
    const edges = ['a', 'b', 'c'].map((id) => ({ ...edge('wide', id), label }));
    const { nodes, routes } = layoutGraph([wide, ...['a', 'b', 'c'].map(node)], edges, OPTIONS);
    for (const { points, id } of routes) {
      const target = nodes.get(edges.find((each) => each.id === id)?.to ?? '');
      const middle = (target?.x ?? 0) + (target?.width ?? 0) / 2;
      for (const point of points) expect(point.x).toBeCloseTo(middle, 0);
    }
  });
});
