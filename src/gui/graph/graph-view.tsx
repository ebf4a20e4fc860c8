/**
 * A step graph to look at and to walk through: boxes are buttons over drawn arcs, with one stop for the tab key; arrow
 * keys follow the arcs and `f` finds what failed. The same as a table is one press away, and is what a screen reader
 * is pointed to.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { durationText } from '../core/time.ts';
import type { GraphEdge, GraphNode, StepGraph } from '../core/wire.ts';
import { Icon } from '../parts/icons.tsx';
import { toneIcon, toneOf } from '../parts/status.tsx';
import { GraphTable } from './graph-table.tsx';
import { type Layout, layoutGraph } from './layout.ts';
import { pathOf } from './route-path.ts';

const DRAWN_MAX = 300;
/** `beside` is what stands beside the name: edges, icon and a duration such as `12 m 34 s`. */
const BOX = { least: 148, most: 340, height: 52, beside: 126, loopIcon: 16 };
const PADDING = 24;

interface GraphViewProps {
  readonly graph: StepGraph;
  readonly chosen: string | null;
  readonly onChoose: (id: string | null) => void;
  readonly label?: string;
}

export function GraphView({ graph, chosen, onChoose, label = 'Step graph' }: GraphViewProps) {
  const [asTable, setAsTable] = useState(graph.nodes.length > DRAWN_MAX);
  // Counts that grow by a digit need room; others change no place.
  const shape =
    graph.nodes.map((node) => `${node.id} ${subText(node).length}`).join() + graph.edges.map((edge) => edge.id).join();
  const layout = useMemo(() => place(graph), [shape]);
  return (
    <section class="card" aria-label={label}>
      <header>
        <Legend ran={graph.nodes.some((node) => node.state !== null)} />
        <button type="button" class="button tiny" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? 'Show the drawing' : 'Show as a table'}
        </button>
      </header>
      {asTable ? (
        <GraphTable graph={graph} onChoose={onChoose} />
      ) : (
        <Drawing graph={graph} layout={layout} chosen={chosen} onChoose={onChoose} />
      )}
    </section>
  );
}

function place(graph: StepGraph): Layout {
  const entryFirst = [...graph.nodes].sort((a, b) => Number(b.id === graph.entry) - Number(a.id === graph.entry));
  return layoutGraph(
    entryFirst.map((node) => ({ id: node.id, width: widthOf(node), height: BOX.height })),
    graph.edges,
    { direction: 'down', layerGap: 46, nodeGap: 28 },
  );
}

function widthOf(node: GraphNode): number {
  const text = Math.max(textWidth(node.step, 600, 14), textWidth(subText(node), 400, 12) + BOX.loopIcon);
  return Math.min(BOX.most, Math.max(BOX.least, Math.ceil(text) + BOX.beside));
}

/** Below the name: the tools, or of a loop how far it is. */
function subText({ kinds, state }: GraphNode): string {
  const loop = state?.iterations ?? null;
  const total = loop === null || loop.total === null ? '' : `/${loop.total}`;
  const failed = loop === null || loop.failed === 0 ? '' : ` · ${loop.failed} failed`;
  const again = (state?.activations ?? 0) > 1 ? ` · ${state?.activations}×` : '';
  return `${loop === null ? kinds.join(', ') : `${loop.done}${total}${failed}`}${again}`;
}

let pen: CanvasRenderingContext2D | null = null;

/** Letters are measured: a guess cuts names off in one font and leaves holes in another. */
function textWidth(text: string, weight: number, px: number): number {
  pen ??= document.createElement('canvas').getContext('2d');
  if (pen === null) return text.length * px * 0.6;
  pen.font = `${weight} ${px}px ${getComputedStyle(document.documentElement).fontFamily}`;
  return pen.measureText(text).width;
}

function Drawing({ graph, layout, chosen, onChoose }: GraphViewProps & { layout: Layout }) {
  const area = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<string | null>(null);
  const ran = graph.nodes.some((node) => node.state !== null);
  const stop = graph.nodes.find((node) => node.id === (chosen ?? at))?.id ?? graph.entry ?? graph.nodes[0]?.id;
  const byId = new Map(graph.edges.map((edge) => [edge.id, edge]));

  // A drawing wider than its window begins at the step that is asked for, else at the first one.
  useEffect(() => {
    const box = stop === undefined ? undefined : layout.nodes.get(stop);
    if (area.current === null || box === undefined) return;
    area.current.scrollLeft = box.x + PADDING + box.width / 2 - area.current.clientWidth / 2;
    area.current.scrollTop = box.y + PADDING + box.height - area.current.clientHeight * 0.8;
  }, [layout]);

  const focus = (id: string | undefined): void => {
    if (id === undefined) return;
    setAt(id);
    for (const each of area.current?.querySelectorAll<HTMLElement>('[data-node]') ?? []) {
      if (each.dataset['node'] === id) each.focus();
    }
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const target = event.target;
    const id = target instanceof HTMLElement ? target.dataset['node'] : undefined;
    if (id === undefined || event.ctrlKey || event.metaKey) return;
    const goal = goalOf(event.key, id, graph, layout);
    if (goal === undefined) {
      if (event.key === 'Escape' && chosen !== null) onChoose(null);
      return;
    }
    event.preventDefault();
    focus(goal);
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: arrow keys move between the buttons inside
    <div class="graph" ref={area} onKeyDown={onKeyDown}>
      <div
        class="graph-area"
        style={{ width: `${layout.width + 2 * PADDING}px`, height: `${layout.height + 2 * PADDING}px` }}
      >
        <svg
          width={layout.width + 2 * PADDING}
          height={layout.height + 2 * PADDING}
          viewBox={`${-PADDING} ${-PADDING} ${layout.width + 2 * PADDING} ${layout.height + 2 * PADDING}`}
          aria-hidden="true"
        >
          <defs>
            <marker
              id="arrow"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="8"
              markerHeight="8"
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0 0.500L7.500 4L0 7.500z" class="arrow" />
            </marker>
            <marker
              id="arrow-taken"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="10"
              markerHeight="10"
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0 0.500L7.500 4L0 7.500z" class="arrow taken" />
            </marker>
          </defs>
          {layout.routes.map((route) => {
            const edge = byId.get(route.id);
            const taken = (edge?.taken ?? 0) > 0;
            return (
              <path
                key={route.id}
                d={pathOf(route.points, 'down')}
                class={edgeClass(edge, ran)}
                marker-end={taken ? 'url(#arrow-taken)' : 'url(#arrow)'}
              >
                <title>{edge === undefined ? '' : edgeText(edge)}</title>
              </path>
            );
          })}
        </svg>
        {graph.nodes.map((node) => {
          const box = layout.nodes.get(node.id);
          return box === undefined ? null : (
            <NodeBox
              key={node.id}
              node={node}
              x={box.x + PADDING}
              y={box.y + PADDING}
              width={box.width}
              height={box.height}
              ran={ran}
              isStop={node.id === stop}
              chosen={node.id === chosen}
              onChoose={() => onChoose(node.id === chosen ? null : node.id)}
            />
          );
        })}
      </div>
    </div>
  );
}

function NodeBox(props: {
  node: GraphNode;
  x: number;
  y: number;
  width: number;
  height: number;
  ran: boolean;
  isStop: boolean;
  chosen: boolean;
  onChoose: () => void;
}) {
  const { node, x, y, width, height } = props;
  const status = node.state?.status ?? (props.ran ? 'not reached' : 'planned');
  const tone = toneOf(status);
  return (
    <button
      type="button"
      class={`node tone-${tone}${node.state === null && props.ran ? ' unreached' : ''}`}
      data-node={node.id}
      tabIndex={props.isStop ? 0 : -1}
      aria-pressed={props.chosen}
      title={node.step}
      style={{ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` }}
      onClick={props.onChoose}
    >
      {props.ran && (
        <span class="node-icon">
          <Icon name={node.state === null ? 'circle' : toneIcon(status)} size={14} spin={tone === 'running'} />
        </span>
      )}
      <span class="node-text">
        <span class="node-name">
          {node.step}
          {props.ran && <span class="visually-hidden">, {status}, </span>}
        </span>
        <span class="node-sub">
          {node.loop !== null && <Icon name="loop" size={11} />}
          {subText(node)}
        </span>
      </span>
      {node.state?.duration_ms != null && <span class="node-time">{durationText(node.state.duration_ms)}</span>}
    </button>
  );
}

/** Down and up follow arcs; left and right go to the neighbour in the drawing; f to the next failure. */
function goalOf(key: string, id: string, graph: StepGraph, layout: Layout): string | undefined {
  switch (key) {
    case 'ArrowDown':
      return (
        graph.edges.find((edge) => edge.from === id && (edge.taken ?? 0) > 0) ??
        graph.edges.find((edge) => edge.from === id)
      )?.to;
    case 'ArrowUp':
      return (
        graph.edges.find((edge) => edge.to === id && (edge.taken ?? 0) > 0) ??
        graph.edges.find((edge) => edge.to === id)
      )?.from;
    case 'ArrowLeft':
    case 'ArrowRight': {
      const here = layout.nodes.get(id);
      if (here === undefined) return undefined;
      const sign = key === 'ArrowLeft' ? -1 : 1;
      const beside = [...layout.nodes.values()]
        .filter((each) => each.id !== id && Math.abs(each.y - here.y) < BOX.height && (each.x - here.x) * sign > 0)
        .sort((a, b) => Math.abs(a.x - here.x) - Math.abs(b.x - here.x));
      return beside[0]?.id;
    }
    case 'f': {
      const failed = graph.nodes.filter((node) => node.state?.status === 'failed');
      const after = failed.findIndex((node) => node.id === id) + 1;
      return (failed[after] ?? failed[0])?.id;
    }
    case 'Home':
      return graph.entry ?? undefined;
    default:
      return undefined;
  }
}

function edgeClass(edge: GraphEdge | undefined, ran: boolean): string {
  const words = ['edge'];
  if (edge?.when != null) words.push('conditional');
  if ((edge?.taken ?? 0) > 0) words.push('taken');
  else if (ran) words.push('untaken');
  return words.join(' ');
}

function edgeText(edge: GraphEdge): string {
  const taken =
    edge.taken === null
      ? ''
      : edge.taken === 0
        ? ', not taken'
        : `, taken${edge.taken > 1 ? ` ${edge.taken} times` : ''}`;
  return `${edge.from} to ${edge.to}${edge.when === null ? '' : ` when ${edge.when}`}${taken}`;
}

function Legend({ ran }: { ran: boolean }) {
  return (
    <p class="legend small soft">
      <span>
        <svg width="26" height="8" aria-hidden="true">
          <path d="M1 4h24" class="edge" />
        </svg>{' '}
        always
      </span>
      <span>
        <svg width="26" height="8" aria-hidden="true">
          <path d="M1 4h24" class="edge conditional" />
        </svg>{' '}
        on a condition
      </span>
      {ran && (
        <span>
          <svg width="26" height="8" aria-hidden="true">
            <path d="M1 4h24" class="edge taken" />
          </svg>{' '}
          taken
        </span>
      )}
    </p>
  );
}
