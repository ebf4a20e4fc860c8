/**
 * Where a step graph comes from: the server draws it and lays the run over it; where it cannot, the same object is put
 * together here from the document and the events.
 */
import { catalogAddress, get, orNull, post } from '../core/api.ts';
import type { CatalogEntry, EventPage, LogEvent, StepGraph } from '../core/wire.ts';
import { planOf, withStates } from './plan.ts';

const STORY_TYPES =
  'step.*,loop.*,command.claimed,command.completed,command.failed,command.cancelled,call.error,ctx.updated,playbook.*,execution.*';
const STORY_PAGE = 500;
const STORY_MAX = 5_000;

export async function planGraph(path: string, version: number | null, signal?: AbortSignal): Promise<StepGraph> {
  const drawn = await orNull(get<StepGraph>(catalogAddress(path, 'graph'), { version }, signal));
  if (drawn !== null) return drawn;
  const entry = await post<CatalogEntry>('/api/catalog/resource', { path, version: version ?? 'latest' }, signal);
  return planOf(entry.path, entry.version, entry.payload ?? {});
}

export async function executionGraph(
  execution: {
    readonly execution_id: number;
    readonly path: string;
    readonly version: number;
    readonly catalog_id: number;
  },
  signal?: AbortSignal,
): Promise<StepGraph> {
  const { execution_id, path, version, catalog_id } = execution;
  const drawn = await orNull(get<StepGraph>(catalogAddress(path, 'graph'), { version, execution_id }, signal));
  if (drawn !== null) return withoutUnreached(drawn);
  const [entry, story] = await Promise.all([
    post<CatalogEntry>('/api/catalog/resource', { catalog_id }, signal),
    loadStory(execution_id, signal),
  ]);
  return withStates(planOf(path, version, entry.payload ?? {}), story.events);
}

/** A step that was never entered has no state worth showing. */
export function withoutUnreached<Graph extends Pick<StepGraph, 'nodes'>>(graph: Graph): Graph {
  return {
    ...graph,
    nodes: graph.nodes.map((node) =>
      node.state?.activations === 0 && node.state.status === 'pending' ? { ...node, state: null } : node,
    ),
  };
}

/** Of a text that is not stored; null when the server does not draw or cannot read it. */
export async function textGraph(content: string, signal?: AbortSignal): Promise<StepGraph | null> {
  return orNull(post<StepGraph>('/api/catalog/playbooks/graph', { content }, signal));
}

export interface Story {
  readonly events: readonly LogEvent[];
  /** There are more than are worth drawing. */
  readonly cut: boolean;
}

/** The events that tell how steps went, oldest first; those of `before` are not asked for again. */
export async function loadStory(executionId: number, signal?: AbortSignal, before?: Story): Promise<Story> {
  const events = [...(before?.events ?? [])];
  let since = events.at(-1)?.event_id ?? 0;
  while (events.length < STORY_MAX) {
    const found = await get<EventPage>(
      `/api/events/${executionId}`,
      { since_event_id: since, page_size: STORY_PAGE, event_type: STORY_TYPES },
      signal,
    );
    events.push(...found.events);
    since = found.events.at(-1)?.event_id ?? since;
    if (found.events.length < STORY_PAGE) return { events, cut: false };
  }
  return { events, cut: true };
}
