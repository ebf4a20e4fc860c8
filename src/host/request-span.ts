/** The span of one answered request (api 7.3): below the caller's, or a trace of its own where none was brought. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { readTraceparent } from '../../machines/trace-context.ts';
import type { Tracing } from '../telemetry/tracer.ts';

/** Asked by machines every few seconds, and of no interest to anybody else. */
const UNTRACED: ReadonlySet<string> = new Set(['/health', '/api/health', '/metrics']);

/** For lines of the log about a request: the trace its caller brought, if any. */
export function traceFields({ headers }: Pick<FastifyRequest, 'headers'>): { readonly trace_id?: string } {
  const outer = readTraceparent(headers['traceparent']);
  return outer === null ? {} : { trace_id: outer.traceId };
}

/** After the answer was sent. */
export function traceRequest(tracer: Tracing, request: FastifyRequest, reply: FastifyReply): void {
  const { url: route = 'unknown' } = request.routeOptions;
  if (UNTRACED.has(route)) return;
  const outer = readTraceparent(request.headers['traceparent']);
  const traceId = outer?.traceId ?? tracer.newTraceId();
  if (outer === null ? !tracer.isSampled(traceId) : !outer.isSampled) return;
  const endMs = tracer.now();
  tracer.record({
    name: `http.server ${route}`,
    kind: 'server',
    traceId,
    spanId: tracer.newSpanId(),
    parentSpanId: outer?.spanId ?? null,
    startMs: endMs - reply.elapsedTime,
    endMs,
    attributes: {
      'http.request.method': request.method,
      'http.route': route,
      'http.response.status_code': reply.statusCode,
      'callboard.request_id': request.id,
    },
    failed: reply.statusCode >= 500,
  });
}
