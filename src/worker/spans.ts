/**
 * What a worker adds to the trace of a command (api 7.3): one span for each try of a task, below it the requests of the try
 * and renewals of keychain entries. Calls to the server made within a try carry the try's span. With traces off, a trace the
 * caller brought is still passed on, and nothing is kept.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  commandSpanId,
  readTraceparent,
  type TraceContext,
  traceIdOf,
  writeTraceparent,
} from '../../machines/trace-context.ts';
import type { Tracing } from '../telemetry/tracer.ts';
import type { ToolTrace, TraceHeaders } from '../tools/tool.ts';
import type { WorkerCommand } from './command.ts';

export interface TryNamed {
  readonly kind: string;
  readonly task: string;
  readonly number: number;
}

export class WorkerSpans {
  readonly #tracer: Tracing;
  readonly #current = new AsyncLocalStorage<CurrentTrace>();

  constructor(tracer: Tracing) {
    this.#tracer = tracer;
  }

  /** The trace headers of calls made now; none outside of a traced try. */
  headers(): Readonly<Record<string, string>> | undefined {
    const current = this.#current.getStore();
    return current === undefined ? undefined : { ...headersOf(writeTraceparent(current.context), current.tracestate) };
  }

  /** Runs one try as the span `tool <kind>`. */
  async try<T>(
    command: WorkerCommand,
    named: TryNamed,
    hasFailed: (value: T) => boolean,
    work: (trace: ToolTrace | null) => Promise<T>,
  ): Promise<T> {
    const tracer = this.#tracer;
    const { tracestate } = command;
    if (!tracer.isOn) return work(command.trace === null ? null : passedOn(headersOf(command.trace, tracestate)));
    const parent = contextOf(command, tracer);
    const context = { ...parent, spanId: tracer.newSpanId() };
    const startMs = tracer.now();
    let failed = true;
    try {
      const value = await this.#current.run({ context, tracestate }, () =>
        work(requestsBelow(context, tracestate, tracer)),
      );
      failed = hasFailed(value);
      return value;
    } finally {
      if (context.isSampled)
        tracer.record({
          name: `tool ${named.kind}`,
          traceId: context.traceId,
          spanId: context.spanId,
          parentSpanId: parent.spanId,
          startMs,
          endMs: tracer.now(),
          attributes: {
            'callboard.execution_id': command.executionId,
            'callboard.command_id': command.commandId,
            'callboard.step': command.step,
            'callboard.task': named.task,
            'callboard.tool_kind': named.kind,
            'callboard.attempt': command.attempt,
            'callboard.try': named.number,
            'callboard.status': failed ? 'failed' : 'completed',
          },
          failed,
        });
    }
  }

  /** Runs a renewal as the span `keychain.renew` below the try that started it. */
  async renewal<T extends { readonly ok: boolean }>(name: string, work: () => Promise<T>): Promise<T> {
    const tracer = this.#tracer;
    const parent = this.#current.getStore()?.context;
    if (parent === undefined || !parent.isSampled) return work();
    const startMs = tracer.now();
    const renewal = await work();
    tracer.record({
      name: 'keychain.renew',
      traceId: parent.traceId,
      spanId: tracer.newSpanId(),
      parentSpanId: parent.spanId,
      startMs,
      endMs: tracer.now(),
      attributes: { 'callboard.keychain_name': name, 'callboard.status': renewal.ok ? 'completed' : 'failed' },
      failed: !renewal.ok,
    });
    return renewal;
  }
}

/** The command's own span; a server without traces leaves its id to be worked out. */
function contextOf({ trace, executionId, commandId }: WorkerCommand, tracer: Tracing): TraceContext {
  const given = readTraceparent(trace);
  if (given !== null) return given;
  const traceId = traceIdOf(executionId, tracer.digest);
  return { traceId, spanId: commandSpanId(commandId, tracer.digest), isSampled: tracer.isSampled(traceId) };
}

interface CurrentTrace {
  readonly context: TraceContext;
  readonly tracestate: string | null;
}

function headersOf(traceparent: string, tracestate: string | null): TraceHeaders {
  return tracestate === null ? { traceparent } : { traceparent, tracestate };
}

function passedOn(headers: TraceHeaders): ToolTrace {
  return { request: () => ({ headers, end: () => {} }) };
}

function requestsBelow(parent: TraceContext, tracestate: string | null, tracer: Tracing): ToolTrace {
  return {
    request({ method, host }) {
      const spanId = tracer.newSpanId();
      const startMs = tracer.now();
      return {
        headers: headersOf(writeTraceparent({ ...parent, spanId }), tracestate),
        end(status) {
          if (!parent.isSampled) return;
          tracer.record({
            name: 'http.client',
            kind: 'client',
            traceId: parent.traceId,
            spanId,
            parentSpanId: parent.spanId,
            startMs,
            endMs: tracer.now(),
            attributes: {
              'http.request.method': method,
              'server.address': host,
              ...(status === null ? {} : { 'http.response.status_code': status }),
            },
            failed: status === null || status >= 400,
          });
        },
      };
    },
  };
}
