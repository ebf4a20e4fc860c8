/**
 * Warnings about the shape of a workflow (language 3.3): steps nothing leads to, branches that never meet, joins whose
 * branches exclude each other. Guards are not judged, so these are hints and never errors.
 */
import type { Playbook, Step } from './document.ts';
import { buildGraph, type Graph } from './graph.ts';
import type { MapPlace } from './place.ts';
import { type Report, stepSubject } from './report.ts';

/** More upstream steps than this are not compared pair by pair. */
const SOURCES_MAX = 8;
/** In a document with more arcs only unreachable steps are looked for; the rest would take too long. */
const ARCS_MAX = 5000;

/** An inclusive step with at least two targets, and what each of its branches can reach. */
interface Fork {
  readonly step: Step;
  readonly branches: readonly ReadonlySet<string>[];
}

/** `places` are the maps of the steps by name. */
export function warnRouting(report: Report, places: ReadonlyMap<string, MapPlace>, playbook: Playbook): void {
  const graph = buildGraph(playbook);
  const reach = reachOf(graph);
  const reachable = reach(playbook.entryStep);
  const searchable = playbook.steps.reduce((sum, { arcs }) => sum + arcs.length, 0) <= ARCS_MAX;
  const forks = searchable ? playbook.steps.flatMap((step) => forkOf(step, graph, reach) ?? []) : [];
  const apart = new Set(forks.filter(({ branches }) => !meet(branches)).map(({ step }) => step.name));
  for (const [name, place] of places) {
    const subject = stepSubject(name);
    if (!reachable.has(name)) {
      report.warn('unreachable_step', subject, place, 'no path leads here from the entry step');
      continue;
    }
    if (apart.has(name)) {
      report.warn('fanout_no_reducer', subject, place, 'the inclusive branches of this step never meet');
    }
    const upstream = [...graph.up(name)].filter((source) => reachable.has(source)).slice(0, SOURCES_MAX);
    if (searchable && upstream.length > 1 && exclude(upstream, name, forks)) {
      const text = `its upstream steps (${upstream.join(', ')}) can never all be active`;
      report.warn('reducer_orphan', subject, place, text);
    }
  }
}

type Reach = (step: string) => ReadonlySet<string>;

/** A step and everything behind it; forks share the sets of common targets. */
function reachOf(graph: Graph): Reach {
  const known = new Map<string, ReadonlySet<string>>();
  return (step) => {
    const found = known.get(step) ?? new Set([step, ...graph.after(step)]);
    known.set(step, found);
    return found;
  };
}

function forkOf(step: Step, graph: Graph, reach: Reach): Fork | null {
  const targets = graph.targets(step.name);
  if (step.mode !== 'inclusive' || targets.length < 2) return null;
  return { step, branches: targets.map(reach) };
}

function meet(branches: readonly ReadonlySet<string>[]): boolean {
  const seen = new Set<string>();
  for (const branch of branches) {
    for (const name of branch) if (seen.has(name)) return true;
    for (const name of branch) seen.add(name);
  }
  return false;
}

/** True when two of the upstream steps lie on different ways of an exclusive choice, whatever fork came before. */
function exclude(upstream: readonly string[], join: string, forks: readonly Fork[]): boolean {
  return upstream.some((one, index) =>
    upstream.slice(index + 1).some((other) => !forks.some((fork) => separates(fork, join, one, other))),
  );
}

/** True when a fork can make both steps active: it reaches them over different branches, or is one of them. */
function separates({ step, branches }: Fork, join: string, one: string, other: string): boolean {
  if (step.name === one || step.name === other) {
    const rest = step.name === one ? other : one;
    return branches.some((branch) => branch.has(rest)) && branches.some((branch) => branch.has(join));
  }
  const over = (name: string): number[] => branches.flatMap((branch, index) => (branch.has(name) ? [index] : []));
  const first = over(one);
  const second = over(other);
  return first.length > 0 && second.length > 0 && new Set([...first, ...second]).size > 1;
}
