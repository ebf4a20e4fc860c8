/**
 * The HTTP server: one route table over the services, and around it everything api 1 demands of each request and answer
 * alike. It knows no store and no actor, and nothing here decides anything about playbooks.
 *
 * Node closes slow requests only when `headersTimeout` is lowered too, and only as often as it looks; both are set.
 */
import { randomBytes } from 'node:crypto';
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { OPEN_CALLER } from '../../actors/audit.ts';
import type { Clock, Log } from '../../actors/ports.ts';
import type { Services } from '../../actors/services.ts';
import { type ApiContext, createWaits, type Lifecycle } from '../api/context.ts';
import type { Route } from '../api/route.ts';
import { createRoutes } from '../api/routes.ts';
import { createStreams } from '../api/streams.ts';
import { uiRoutes } from '../api/ui.ts';
import type { Config } from '../config.ts';
import { RequestError } from '../errors.ts';
import type { GuiFiles } from '../gui/build/built-gui.ts';
import type { Metrics } from '../metrics.ts';
import type { Tracing } from '../telemetry/tracer.ts';
import { hostCheck, isForeignPage, originCheck, readPath, requestIds } from './address.ts';
import { answerPreflight, isPreflight, setHeaders } from './browser-headers.ts';
import { type Callers, createCallers } from './caller.ts';
import { createClientErrorHandler } from './client-error.ts';
import { docsRoutes } from './docs.ts';
import { createErrorHandler, fromFramework } from './error-handler.ts';
import { internalGuard, internalTokenCheck } from './internal-guard.ts';
import { parseBody, readAnyBody } from './json-body.ts';
import { traceRequest } from './request-span.ts';
import { createAllowedMethods, refuseUnknown, registerRoutes } from './routing.ts';

const HEADERS_TIMEOUT_MS = 10_000;
const HEADERS_BYTES_MAX = 16_384;
const URL_BYTES_MAX = 8_192;
const LOOK_FOR_SLOW_PEERS_MS = 1_000;
const SLOW_MS = 1_000;

export type HostConfig = Pick<
  Config,
  | 'host'
  | 'publicUrl'
  | 'allowedHosts'
  | 'corsAllowedOrigins'
  | 'bodyLimitBytes'
  | 'requestTimeoutSeconds'
  | 'docsEnabled'
  | 'claimRetryAfterSeconds'
  | 'runtimeOfflineSeconds'
  | 'workerHeartbeatStaleSeconds'
  | 'internalToken'
  | 'mcpExpose'
  | 'mcpCallTimeoutSeconds'
>;

export interface HostOptions {
  readonly config: HostConfig;
  /** Of the package. */
  readonly version: string;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Without it no request is traced. */
  readonly tracer?: Tracing;
  /** The database's clock. */
  readonly clock: Clock;
  readonly lifecycle: Lifecycle;
  /** The GUI; without it there is no /ui/. */
  readonly gui?: (() => Promise<GuiFiles>) | undefined;
  /** Tells services who asks; give the same one to them. */
  readonly callers?: Callers;
}

/** Does not listen yet. `listen` and `close` are Fastify's; abort `lifecycle.stopping` before `close`, or streams keep it open. */
export function createHost(services: Services, options: HostOptions): FastifyInstance {
  const { config, log, metrics, tracer } = options;
  const { stopping } = options.lifecycle;
  const nextRequestId = requestIds(randomBytes(4).toString('hex'));
  const isHostAllowed = hostCheck(config);
  const isGuarded = internalGuard(config.internalToken);
  const isOriginAllowed = originCheck(config.corsAllowedOrigins);

  const app = fastify({
    logger: false,
    bodyLimit: config.bodyLimitBytes,
    requestTimeout: config.requestTimeoutSeconds * 1000,
    http: {
      headersTimeout: Math.min(HEADERS_TIMEOUT_MS, config.requestTimeoutSeconds * 1000),
      maxHeaderSize: HEADERS_BYTES_MAX,
      connectionsCheckingInterval: LOOK_FOR_SLOW_PEERS_MS,
    },
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 1024 },
    requestIdHeader: false,
    genReqId: (raw) => nextRequestId(raw.headers['x-request-id']),
    clientErrorHandler: createClientErrorHandler(() => nextRequestId(undefined), config),
    frameworkErrors: (error, request, reply) => {
      setHeaders(request, reply, isOriginAllowed);
      handleError(fromFramework(error) ?? error, request, reply);
    },
    // Work that arrives while the process stops is still answered, in our form; its connection ends with the answer.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
  });
  const handleError = createErrorHandler(log, config);
  app.setErrorHandler(handleError);

  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      // parseAs: 'buffer' hands over a Buffer.
      const bytes = body as Buffer;
      done(null, request.routeOptions.config.anyBody === true ? readAnyBody(bytes) : parseBody(bytes));
    } catch (error) {
      done(error as Error);
    }
  });
  app.addContentTypeParser('*', (request, _payload, done) => {
    if (request.headers['content-length'] === '0') done(null, {});
    else done(new RequestError('unsupported_media_type', 'The body must be application/json'));
  });

  app.addHook('onRequest', (request, reply, done) => {
    setHeaders(request, reply, isOriginAllowed);
    if (stopping.aborted) reply.header('connection', 'close');
    if (!isHostAllowed(request.headers.host)) {
      return done(new RequestError('misdirected_host', 'This server does not answer for that host name'));
    }
    if (isPreflight(request)) return answerPreflight(request, reply, isOriginAllowed);
    if (isForeignPage(request.method, request.headers, isOriginAllowed)) {
      return done(new RequestError('forbidden', 'Pages of this origin may not change anything here'));
    }
    const url = request.raw.url ?? '/';
    if (url.length > URL_BYTES_MAX) {
      return done(new RequestError('payload_too_large', `The address is longer than ${URL_BYTES_MAX} bytes`));
    }
    const path = readPath(url);
    if (path === null) return done(new RequestError('not_found', 'No such resource'));
    if (isGuarded(path, request.headers)) {
      return done(new RequestError('unauthenticated', 'This needs the token of SVC_INTERNAL_TOKEN'));
    }
    return done();
  });

  app.addHook('onResponse', (request, reply, done) => {
    record(request, reply.statusCode, reply.elapsedTime);
    if (tracer?.isOn === true) traceRequest(tracer, request, reply);
    done();
  });

  const callers = options.callers ?? createCallers();
  const routes = routesOf(services, { ...options, callers });
  const methodsOf = createAllowedMethods(routes);
  app.setNotFoundHandler((request) => {
    const url = request.raw.url ?? '/';
    const path = readPath(url) ?? '';
    const shown = path.length > 200 ? `${path.slice(0, 200)}…` : path;
    throw refuseUnknown(methodsOf(url), request.method, shown.toWellFormed());
  });
  registerRoutes(app, routes, callers);
  return app;

  function record(request: FastifyRequest, status: number, elapsedMs: number): void {
    const { url: route = 'unknown', config: settings } = request.routeOptions;
    metrics.count('svc_http_requests_total', { method: request.method, route, code: String(status) });
    if (settings.waits === true) return;
    metrics.observe('svc_http_request_seconds', elapsedMs / 1000, { route });
    if (elapsedMs > SLOW_MS) {
      log.info('A request was slow', {
        request_id: request.id,
        method: request.method,
        route,
        code: status,
        duration_ms: Math.round(elapsedMs),
      });
    }
  }
}

/** The whole table: the doors of the services and, when they are served, the documentation of these doors. */
export function routesOf(services: Services, options: HostOptions): readonly Route[] {
  const { config, metrics, lifecycle } = options;
  const context: ApiContext = {
    services,
    clock: options.clock,
    log: options.log,
    metrics,
    streams: createStreams(metrics, lifecycle.stopping),
    waits: createWaits(lifecycle.stopping),
    lifecycle,
    caller: options.callers?.current ?? (() => OPEN_CALLER),
    isOriginAllowed: originCheck(config.corsAllowedOrigins),
    internalToken: internalTokenCheck(config.internalToken),
    settings: {
      version: options.version,
      runtimeOfflineSeconds: config.runtimeOfflineSeconds,
      workerHeartbeatStaleSeconds: config.workerHeartbeatStaleSeconds,
      mcpExpose: config.mcpExpose,
      mcpCallTimeoutSeconds: config.mcpCallTimeoutSeconds,
    },
  };
  const gui = options.gui === undefined ? [] : uiRoutes(options.gui);
  const routes = [...createRoutes(context), ...gui];
  return config.docsEnabled ? [...routes, ...docsRoutes(routes, options.version)] : routes;
}
