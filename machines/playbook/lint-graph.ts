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

/** An inclusive step with at least two targets, and what each of its branches can reach. */
interface Fork {
  readonly step: Step;
  readonly branches: readonly ReadonlySet<string>[];
}

/** `places` are the maps of the steps by name. */
export function warnRouting(report: Report, places: ReadonlyMap<string, MapPlace>, playbook: Playbook): void {
  const graph = buildGraph(playbook);
  const reachable = withSelf(playbook.entryStep, graph);
  const forks = playbook.steps.flatMap((step) => forkOf(step, graph) ?? []);
  for (const [name, place] of places) {
    const subject = stepSubject(name);
    if (!reachable.has(name)) {
      report.warn('unreachable_step', subject, place, 'no path leads here from the entry step');
      continue;
    }
    const fork = forks.find(({ step }) => step.name === name);
    if (fork && !meet(fork.branches)) {
      report.warn('fanout_no_reducer', subject, place, 'the inclusive branches of this step never meet');
    }
    const upstream = [...graph.up(name)].filter((source) => reachable.has(source)).slice(0, SOURCES_MAX);
    if (upstream.length > 1 && exclude(upstream, name, forks)) {
      const text = `its upstream steps (${upstream.join(', ')}) can never all be active`;
      report.warn('reducer_orphan', subject, place, text);
    }
  }
}

function forkOf(step: Step, graph: Graph): Fork | null {
  const targets = graph.targets(step.name);
  if (step.mode !== 'inclusive' || targets.length < 2) return null;
  return { step, branches: targets.map((target) => withSelf(target, graph)) };
}

function withSelf(step: string, graph: Graph): ReadonlySet<string> {
  return new Set([step, ...graph.after(step)]);
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
