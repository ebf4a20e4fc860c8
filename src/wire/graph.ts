/** A playbook as a drawing (api 2.2.14), with the states of an execution laid over it, and its run form (2.2.13). */
import * as v from 'valibot';
import type { DrawnExecution } from '../../actors/services.ts';
import { instantOf } from '../../machines/command/instant.ts';
import type { StepState } from '../../machines/execution/overlay.ts';
import type { Json } from '../../machines/json.ts';
import { layOut } from '../../machines/layout.ts';
import type { FormField, RunForm } from '../../machines/playbook/run-form.ts';
import { flowchartOf, type StepGraph, type StepStatus } from '../../machines/playbook/step-graph.ts';
import { json, map } from './fields.ts';

const stepState = v.object({
  status: v.string(),
  activations: v.number(),
  iterations: v.nullable(v.object({ total: v.number(), done: v.number(), failed: v.number() })),
  started_at: v.nullable(v.string()),
  ended_at: v.nullable(v.string()),
  duration_ms: v.nullable(v.number()),
  error: v.nullable(v.string()),
});

export const stepGraph = v.object({
  path: v.nullable(v.string()),
  version: v.nullable(v.number()),
  entry: v.string(),
  mermaid: v.string(),
  nodes: v.array(
    v.object({
      id: v.string(),
      step: v.string(),
      kinds: v.array(v.string()),
      loop: v.nullable(v.object({ mode: v.string(), iterator: v.string() })),
      line: v.nullable(v.number()),
      state: v.nullable(stepState),
    }),
  ),
  edges: v.array(
    v.object({
      id: v.string(),
      from: v.string(),
      to: v.string(),
      when: v.nullable(v.string()),
      mode: v.string(),
      back: v.boolean(),
      taken: v.nullable(v.number()),
    }),
  ),
  layout: map,
});

export function stepGraphToWire(
  graph: StepGraph,
  owner: { readonly path: string | null; readonly version: number | null },
  drawn: DrawnExecution | null,
): v.InferOutput<typeof stepGraph> {
  const states = new Map<string, StepState>();
  if (drawn !== null) {
    const isEnded = drawn.row.status !== 'running';
    for (const { id, line } of graph.nodes) {
      if (line !== null) states.set(id, drawn.overlay.stepState(id, drawn.run, isEnded));
    }
  }
  const taken = drawn?.overlay.taken() ?? null;
  const statuses = new Map<string, StepStatus>([...states].map(([id, { status }]) => [id, status]));
  const placed = layOut({
    nodes: graph.nodes.map(({ id, step }) => ({ id, label: step, parent: null })),
    edges: graph.edges.map(({ id, from, to }) => ({ id, from, to, label: '' })),
  });
  return {
    ...owner,
    entry: graph.entry,
    mermaid: flowchartOf(graph, statuses),
    nodes: graph.nodes.map(({ id, step, kinds, loop, line }) => ({
      id,
      step,
      kinds: [...kinds],
      loop,
      line,
      state: stateToWire(states.get(id)),
    })),
    edges: graph.edges.map(({ id, from, to, when, mode, back }) => ({
      id,
      from,
      to,
      when: when === null ? null : String(when),
      mode,
      back,
      taken: taken === null ? null : (taken.get(id) ?? 0),
    })),
    // A layout is JSON: numbers, texts, lists.
    layout: { ...placed } as unknown as { readonly [key: string]: Json },
  };
}

function stateToWire(state: StepState | undefined): v.InferOutput<typeof stepState> | null {
  if (state === undefined) return null;
  const { startedAt, endedAt } = state;
  return {
    status: state.status,
    activations: state.activations,
    iterations: state.iterations,
    started_at: startedAt,
    ended_at: endedAt,
    duration_ms: startedAt === null || endedAt === null ? null : Math.max(0, instantOf(endedAt) - instantOf(startedAt)),
    error: state.error,
  };
}

export interface Field {
  readonly name: string;
  readonly kind: string;
  readonly default: Json;
  readonly description: string | null;
  readonly secret: boolean;
  readonly credential_glob: string | null;
  readonly options: readonly Json[];
  readonly children: readonly Field[];
}

export const runForm = v.object({
  path: v.string(),
  version: v.number(),
  kind: v.string(),
  title: v.string(),
  description_markdown: v.string(),
  exposed_in_ui: v.boolean(),
  generated_at: v.string(),
  fields: v.array(
    v.object({
      name: v.string(),
      kind: v.picklist(['string', 'integer', 'number', 'boolean', 'object', 'array', 'null', 'enum']),
      default: json,
      description: v.nullable(v.string()),
      secret: v.boolean(),
      credential_glob: v.nullable(v.string()),
      options: v.array(json),
      // Fields of the same form.
      children: v.array(map),
    }),
  ),
});

export function runFormToWire(
  form: RunForm,
  entry: { readonly path: string; readonly version: number; readonly kind: string; readonly name: string },
  generatedAt: string,
) {
  return {
    path: entry.path,
    version: entry.version,
    kind: entry.kind,
    title: form.title ?? entry.name,
    description_markdown: form.description,
    exposed_in_ui: form.isExposed,
    generated_at: generatedAt,
    fields: form.fields.map(fieldToWire),
  };
}

/** The default of a secret is not shown: it may be one. */
function fieldToWire(field: FormField): Field {
  return {
    name: field.name,
    kind: field.kind,
    default: field.secret ? null : field.default,
    description: field.description,
    secret: field.secret,
    credential_glob: field.credentialGlob,
    options: field.options,
    children: field.children.map(fieldToWire),
  };
}
