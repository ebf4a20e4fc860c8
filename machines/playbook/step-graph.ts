/**
 * A playbook as a drawing: a node per step, an edge per arc, and the same as a Mermaid flowchart. What happened in an
 * execution is laid over it by others; a loop is one node however many items it has.
 */
import type { Playbook, Step } from './document.ts';
import { buildGraph } from './graph.ts';

export interface StepNode {
  readonly id: string;
  readonly step: string;
  readonly kinds: readonly string[];
  readonly loop: { readonly mode: string; readonly iterator: string } | null;
  /** Null for the word `end` where no step has that name: the branch is over there. */
  readonly line: number | null;
}

export interface StepEdge {
  /** `<from>><to>#<position among the arcs of the step>` */
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly when: string | boolean | null;
  readonly mode: 'exclusive' | 'inclusive';
  /** Leads back to where a walk from the entry came from: a join does not wait for it. */
  readonly back: boolean;
}

export interface StepGraph {
  readonly entry: string;
  readonly nodes: readonly StepNode[];
  readonly edges: readonly StepEdge[];
}

/** How a drawing colours a step. */
export type StepStatus = 'pending' | 'running' | 'waiting' | 'completed' | 'failed' | 'skipped' | 'cancelled';

export function stepGraphOf(playbook: Playbook): StepGraph {
  const graph = buildGraph(playbook);
  const nodes = playbook.steps.map(nodeOf);
  const edges = playbook.steps.flatMap((step) =>
    step.arcs.map(
      (arc): StepEdge => ({
        id: `${step.name}>${arc.to}#${arc.index}`,
        from: step.name,
        to: arc.to,
        when: arc.when,
        mode: step.mode,
        back: graph.isBack(step.name, arc.to),
      }),
    ),
  );
  const isEnding = edges.some((edge) => !graph.order.has(edge.to));
  const end: StepNode[] = isEnding ? [{ id: 'end', step: 'end', kinds: [], loop: null, line: null }] : [];
  return { entry: playbook.entryStep, nodes: [...nodes, ...end], edges };
}

const COLOURS: Readonly<Record<StepStatus, string>> = {
  pending: 'fill:#f4f4f5,stroke:#a1a1aa,color:#3f3f46',
  running: 'fill:#dbeafe,stroke:#2563eb,color:#1e3a8a',
  waiting: 'fill:#fef9c3,stroke:#ca8a04,color:#713f12',
  completed: 'fill:#dcfce7,stroke:#16a34a,color:#14532d',
  failed: 'fill:#fee2e2,stroke:#dc2626,color:#7f1d1d',
  skipped: 'fill:#fafafa,stroke:#d4d4d8,color:#a1a1aa',
  cancelled: 'fill:#f5f5f4,stroke:#78716c,color:#44403c',
};

/** A flowchart of Mermaid; colours tell the status where there is one. */
export function flowchartOf(graph: StepGraph, statuses: ReadonlyMap<string, StepStatus> = new Map()): string {
  const names = new Map(graph.nodes.map(({ id }, index) => [id, `s${index}`]));
  const lines = ['flowchart TD'];
  for (const { id, step, kinds, loop, line } of graph.nodes) {
    const name = names.get(id);
    if (line === null) lines.push(`  ${name}((end))`);
    else {
      const about = [...(loop === null ? [] : [`${loop.mode} loop`]), kinds.join(', ')].join(': ');
      lines.push(`  ${name}["${quoted(step)}<br/>${quoted(about)}"]`);
    }
  }
  for (const { from, to, when, back } of graph.edges) {
    const label = when === null || when === true ? '' : `|"${quoted(String(when))}"|`;
    lines.push(`  ${names.get(from)} ${back ? '-.->' : '-->'}${label} ${names.get(to)}`);
  }
  const used = new Set(statuses.values());
  for (const [status, style] of Object.entries(COLOURS)) {
    // The keys of the table are the statuses.
    if (used.has(status as StepStatus)) lines.push(`  classDef ${status} ${style}`);
  }
  for (const [id, status] of statuses) if (names.has(id)) lines.push(`  class ${names.get(id)} ${status}`);
  return `${lines.join('\n')}\n`;
}

function nodeOf(step: Step): StepNode {
  return {
    id: step.name,
    step: step.name,
    kinds: step.tasks.map((task) => task.kind),
    loop: step.loop === null ? null : { mode: step.loop.mode, iterator: step.loop.iterator },
    line: step.line,
  };
}

/** Text inside quotes of Mermaid: entities instead of what would end it, and one line. */
function quoted(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ');
  const short = line.length > 60 ? `${line.slice(0, 59)}…` : line;
  return short.replaceAll('&', '#amp;').replaceAll('"', '#quot;').replaceAll('<', '#lt;').replaceAll('>', '#gt;');
}
