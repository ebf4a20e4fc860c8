/**
 * The spans of one flush (api 7.3): a turn is part of its execution; the flush and its transaction carry many executions
 * and stand in the trace of the first one that is recorded, with their number beside. They are told when the flush is
 * committed: what is tried again leaves no spans of its failures.
 */
import type { TraceContext } from '../machines/trace-context.ts';
import type { ExecutionActor } from './execution-actor.ts';
import type { Span, Tracer } from './ports.ts';
import { executionContext } from './traces.ts';

export class FlushSpans {
  readonly #tracer: Tracer;
  readonly #startMs: number;
  readonly #turns: { readonly actor: ExecutionActor; readonly startMs: number; readonly endMs: number }[] = [];

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
    this.#startMs = tracer.now();
  }

  now(): number {
    return this.#tracer.now();
  }

  turn(actor: ExecutionActor, tookMs: number): void {
    const endMs = this.#tracer.now();
    this.#turns.push({ actor, startMs: endMs - tookMs, endMs });
  }

  committed(
    written: readonly ExecutionActor[],
    committingMs: number,
    counts: { readonly jobs: number; readonly events: number },
  ): void {
    const endMs = this.#tracer.now();
    const contexts = new Map<ExecutionActor, TraceContext>();
    for (const actor of written) {
      const context = executionContext(this.#tracer, actor.row);
      if (context.isSampled) contexts.set(actor, context);
    }
    for (const { actor, startMs, endMs: turnEndMs } of this.#turns) {
      const context = contexts.get(actor);
      if (context !== undefined) this.#record('turn', context, startMs, turnEndMs, executionOf(actor));
    }
    const [first] = contexts;
    if (first === undefined) return;
    const [actor, context] = first;
    const attributes = {
      ...executionOf(actor),
      'callboard.executions': written.length,
      'callboard.jobs': counts.jobs,
      'callboard.events': counts.events,
    };
    const spanId = this.#record('flush', context, this.#startMs, endMs, attributes);
    this.#record('db.tx', { ...context, spanId }, committingMs, endMs, { 'db.system.name': 'postgresql' });
  }

  #record(name: string, parent: TraceContext, startMs: number, endMs: number, attributes: Span['attributes']): string {
    const spanId = this.#tracer.newSpanId();
    this.#tracer.record({
      name,
      traceId: parent.traceId,
      spanId,
      parentSpanId: parent.spanId,
      startMs,
      endMs,
      attributes,
    });
    return spanId;
  }
}

function executionOf(actor: ExecutionActor): Span['attributes'] {
  return { 'callboard.execution_id': actor.executionId };
}
