/**
 * The HTTP server: one route table over the services, and around it everything api 1 demands of each request and answer
 * alike. It knows no store and no actor, and nothing here decides anything about playbooks.
 */
import { randomBytes } from 'node:crypto';
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { OPEN_CALLER } from '../../actors/audit.ts';
import type { Clock, Log } from '../../actors/ports.ts';
import type { Services } from '../../actors/services.ts';
import { type ApiContext, createWaits, type Lifecycle } from '../api/context.ts';
import { givenTokens } from '../api/given-tokens.ts';
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
import { createAuthentication, createDenialNote, createStreamOwners } from './authentication.ts';
import { readBodies } from './body-reader.ts';
import { answerPreflight, isPreflight, setHeaders } from './browser-headers.ts';
import { type Callers, createCallers } from './caller.ts';
import { createClientErrorHandler } from './client-error.ts';
import { docsRoutes } from './docs.ts';
import { httpLimits } from './door.ts';
import { createErrorHandler, fromFramework } from './error-handler.ts';
import { INTERNAL_TOKEN_MISSING, internalTokenCheck, isGuardedPath } from './internal-guard.ts';
import { createRateLimit } from './rate-limit.ts';
import { traceFields, traceRequest } from './request-span.ts';
import { createAllowedMethods, refuseUnknown, registerRoutes } from './routing.ts';

const URL_BYTES_MAX = 8_192;
/** Above what an address may have: the router answers 404 by itself, and what is too long has refusals of its own. */
const PARAM_LENGTH_MAX = 16_384;
const SLOW_MS = 1_000;

export type HostConfig = Pick<
  Config,
  | 'host'
  | 'publicUrl'
  | 'allowedHosts'
  | 'corsAllowedOrigins'
  | 'bodyLimitBytes'
  | 'requestTimeoutSeconds'
  | 'trustProxy'
  | 'docsEnabled'
  | 'claimRetryAfterSeconds'
  | 'runtimeOfflineSeconds'
  | 'workerHeartbeatStaleSeconds'
  | 'authMode'
  | 'rateLimitPerSecond'
  | 'rateLimitBurst'
  | 'internalToken'
  | 'mcpExpose'
  | 'aiPlaybook'
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

/** Does not listen yet: its `routing` goes behind a door. Abort `lifecycle.stopping` before `close`, or streams keep it open. */
export function createHost(services: Services, options: HostOptions): FastifyInstance {
  const { config, log, metrics, tracer } = options;
  const { stopping } = options.lifecycle;
  const nextRequestId = requestIds(randomBytes(4).toString('hex'));
  const isHostAllowed = hostCheck(config);
  const isInternal = internalTokenCheck(config.internalToken);
  const isEnforced = config.authMode === 'enforce';
  const isOriginAllowed = originCheck(config.corsAllowedOrigins);

  const app = fastify({
    logger: false,
    bodyLimit: config.bodyLimitBytes,
    requestTimeout: config.requestTimeoutSeconds * 1000,
    http: httpLimits(config),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: PARAM_LENGTH_MAX },
    trustProxy: config.trustProxy.length === 0 ? false : [...config.trustProxy],
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
  const handleError = createErrorHandler(log, { ...config, stopping });
  app.setErrorHandler(handleError);

  readBodies(app);

  app.addHook('onRequest', (request, reply, done) => {
    setHeaders(request, reply, isOriginAllowed);
    if (stopping.aborted) reply.header('connection', 'close');
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      return done(new RequestError('misdirected_host', 'The request names no host'));
    }
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
    if (!isEnforced && isInternal !== null && isGuardedPath(path) && !givenTokens(request.headers).some(isInternal)) {
      return done(new RequestError('unauthenticated', INTERNAL_TOKEN_MISSING));
    }
    return done();
  });

  app.decorateRequest('identity', null);
  app.decorateRequest('identityToken', null);
  const { identities, denials } = services;
  if (isEnforced) {
    app.addHook('onRequest', createAuthentication({ identities, denials, isInternal }));
    app.addHook('onError', createDenialNote(denials));
  } else app.addHook('onRequest', createStreamOwners(identities));
  if (config.rateLimitPerSecond > 0) {
    const limit = createRateLimit({ perSecond: config.rateLimitPerSecond, burst: config.rateLimitBurst });
    app.addHook('onRequest', async (request) => limit(request));
  }

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
  const access = services.executionAccess;
  registerRoutes(app, routes, { callers, access, isEnforced, bodyLimitBytes: config.bodyLimitBytes });
  return app;

  function record(request: FastifyRequest, status: number, elapsedMs: number): void {
    const { url: route = 'unknown', config: settings } = request.routeOptions;
    metrics.count('svc_http_requests_total', { method: request.method, route, code: String(status) });
    if (settings.waits === true) return;
    metrics.observe('svc_http_request_seconds', elapsedMs / 1000, { route });
    if (elapsedMs > SLOW_MS) {
      log.info('A request was slow', {
        request_id: request.id,
        ...traceFields(request),
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
    streams: createStreams({ meter: metrics, stopping: lifecycle.stopping, identities: services.identities }),
    waits: createWaits(lifecycle.stopping),
    lifecycle,
    caller: options.callers?.current ?? (() => OPEN_CALLER),
    isOriginAllowed: originCheck(config.corsAllowedOrigins),
    isEnforced: config.authMode === 'enforce',
    isInternal: internalTokenCheck(config.internalToken),
    settings: {
      version: options.version,
      runtimeOfflineSeconds: config.runtimeOfflineSeconds,
      workerHeartbeatStaleSeconds: config.workerHeartbeatStaleSeconds,
      mcpExpose: config.mcpExpose,
      mcpCallTimeoutSeconds: config.mcpCallTimeoutSeconds,
      aiPlaybook: config.aiPlaybook,
    },
  };
  const gui = options.gui === undefined ? [] : uiRoutes(options.gui);
  const routes = [...createRoutes(context), ...gui];
  return config.docsEnabled ? [...routes, ...docsRoutes(routes, options.version)] : routes;
}
