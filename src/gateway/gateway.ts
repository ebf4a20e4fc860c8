/**
 * The doors of the gateway (api 2.19) in the order in which they are tried: what needs nobody, the login, the API behind
 * session, CSRF and role, and the GUI. What has no door does not exist.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Log } from '../log.ts';
import { accessTo, includes, type Role } from './access.ts';
import { CALLBACK_BYTES_MAX, checkInternal, deliver } from './callbacks.ts';
import type { Cookies } from './cookies.ts';
import { checkCsrf } from './csrf.ts';
import { type EventHub, sessionKey } from './event-hub.ts';
import { type Exchange, readBody, redirect, requestIdOf, sendJson, sendRefusal, sendText } from './exchange.ts';
import { requestHeaders } from './header-hygiene.ts';
import type { Login } from './login.ts';
import type { Origins } from './origins.ts';
import { Misfits, Refusal } from './refusal.ts';
import { type RunWatch, startedIn, startsRun } from './run-watch.ts';
import type { Session, Sessions } from './session.ts';
import type { SessionStore } from './session-store.ts';
import { readTarget, type Target } from './target.ts';
import type { Upstream } from './upstream.ts';

export interface GatewayParts {
  readonly upstream: Upstream;
  readonly sessions: Sessions;
  /** Null in `dev`, where the role says it all. */
  readonly access: Pick<SessionStore, 'checkAccess'> | null;
  readonly hub: EventHub;
  readonly runs: RunWatch;
  readonly origins: Origins;
  readonly cookies: Cookies;
  /** Null in `dev`. */
  readonly login: Login | null;
  readonly log: Log;
}

export interface GatewayRules {
  /** Without a slash at the end. */
  readonly publicUrl: string;
  readonly proxyPrefixes: readonly string[];
  readonly sensitive: 'deny' | 'admin';
  /** Sent for admins to the doors of operators; null: none is set. */
  readonly internalToken: string | null;
  /** Whether the gateway answers for a `Host`. */
  readonly isHostAllowed: (host: string | undefined) => boolean;
  readonly logoutUrl: string | null;
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

const NOBODY = { token: null, sessionToken: null };
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
const PERMISSIONS: Readonly<Record<string, Role>> = { view: 'viewer', execute: 'operator', modify: 'operator' };

/** Never rejects. */
export function createGateway(parts: GatewayParts, rules: GatewayRules): Handler {
  const { upstream, sessions, access, hub, runs, origins, cookies, login, log } = parts;
  const isTls = rules.publicUrl.startsWith('https:');

  return async (request, response) => {
    const isPreflight = request.method === 'OPTIONS';
    const requestId = requestIdOf(request);
    const exchange: Exchange = {
      request,
      response,
      requestId,
      headers: {
        'x-request-id': requestId,
        ...origins.headers(request.headers.origin, isPreflight),
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        ...(isTls ? { 'strict-transport-security': 'max-age=31536000' } : {}),
      },
    };
    await serve(exchange).catch((error: unknown) => fail(exchange, error));
  };

  function fail(exchange: Exchange, error: unknown): void {
    const { response, requestId } = exchange;
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    if (error instanceof Refusal) {
      if (error.cause !== undefined)
        log.warn('The server did not answer', { request_id: requestId, error: error.cause });
      sendRefusal(exchange, error);
      return;
    }
    log.error('A request failed', { request_id: requestId, error });
    sendRefusal(exchange, new Refusal('internal_error', 'Internal error'));
  }

  async function serve(exchange: Exchange): Promise<void> {
    const { request } = exchange;
    const method = request.method ?? '';
    if (!rules.isHostAllowed(request.headers.host)) {
      throw new Refusal('misdirected_host', 'This gateway does not answer for that host name');
    }
    if (method === 'OPTIONS') return sendJson(exchange, 204, {});
    const target = readTarget(request.url ?? '', rules.proxyPrefixes);
    if (target === null) throw new Refusal('not_found', 'No such resource');
    if (!METHODS.includes(method)) throw new Refusal('method_not_allowed', `${method} is not possible here`);
    const isRead = method === 'GET' || method === 'HEAD';
    const { path } = target;
    if (isRead) {
      if (path === '/health') return sendText(exchange, 200, 'ok');
      if (path === '/api/runtime/contract') return sendJson(exchange, 200, contract());
      if (path === '/') return redirect(exchange, 302, '/ui/');
      if (path === '/auth/me') return me(exchange);
      if (path === '/auth/error') return sendText(exchange, 400, 'The login did not succeed. Go back and try again.');
      if (path === '/auth/login')
        return login === null ? redirect(exchange, 302, '/ui/') : login.begin(exchange, target.query);
      if (path === '/auth/callback' && method === 'GET' && login !== null) return login.finish(exchange, target.query);
      if (path === '/ui' || path.startsWith('/ui/')) return page(exchange, target);
      if (path === '/events' && method === 'GET') return events(exchange, target);
    }
    if (method === 'POST') {
      if (path === '/auth/logout') return logout(exchange);
      if (path === '/api/auth/login' && login !== null) return login.exchangeToken(exchange, await bodyOf(request));
      if (path === '/api/auth/validate') return validate(exchange);
      if (path === '/api/auth/check-access') return checkAccess(exchange);
      if (path === '/api/internal/callback' || path === '/api/internal/callback/async') return callback(exchange);
    }
    if (path === '/api' || path.startsWith('/api/')) return api(exchange, target);
    throw new Refusal('not_found', 'No such resource');
  }

  async function api(exchange: Exchange, target: Target): Promise<void> {
    const { request } = exchange;
    const access = accessTo(request.method ?? '', target);
    // Nobody needs to be told what exists behind a wall.
    if (access === 'never') throw new Refusal('not_found', 'No such resource');
    const session = await sessions.of(request);
    checkCsrf(request, session, origins);
    if (access === 'sensitive' && rules.sensitive === 'deny') {
      throw new Refusal('forbidden', 'This is not possible through the gateway');
    }
    const needed = access === 'sensitive' ? 'admin' : access;
    if (!includes(session.role, needed)) throw new Refusal('forbidden', `This needs the role ${needed}`);
    // The doors of operators want the internal token; beside it the session says who it is.
    const isOperators = rules.internalToken !== null && /^\/api\/admin(\/|$)/i.test(target.path);
    const tokens = isOperators
      ? { token: rules.internalToken, sessionToken: session.token }
      : { token: session.token, sessionToken: null };
    await pass(exchange, target, session, tokens);
  }

  /** A stream for clients that cannot set headers may bring its token in the address, which is logged nowhere. */
  async function events(exchange: Exchange, { query }: Target): Promise<void> {
    const { request, response, headers } = exchange;
    const session = await sessions.of(request, query.get('session_token'));
    hub.open(query.get('client_id'), session, response, headers);
  }

  async function callback(exchange: Exchange): Promise<void> {
    const { request } = exchange;
    checkInternal(request, rules.internalToken);
    const body = await readBody(request, CALLBACK_BYTES_MAX);
    if (body === null) throw new Misfits(['body: must be a JSON object of at most 1 MiB']);
    const answer = deliver(body, hub, runs);
    sendJson(exchange, answer.status, answer.body);
  }

  /** The GUI holds no secrets, so its files need nobody; a person who opens it is sent to log in first. */
  async function page(exchange: Exchange, target: Target): Promise<void> {
    const { request } = exchange;
    if (login !== null && String(request.headers.accept ?? '').includes('text/html')) {
      const session = await sessions.of(request).catch((error: unknown) => {
        if (error instanceof Refusal && error.code === 'unauthenticated') return null;
        throw error;
      });
      if (session === null) {
        return redirect(exchange, 302, `/auth/login?return_to=${encodeURIComponent(target.forward)}`);
      }
    }
    await pass(exchange, target.path === '/ui' ? { ...target, forward: '/ui/' } : target, null, NOBODY);
  }

  async function pass(
    exchange: Exchange,
    target: Target,
    session: Session | null,
    tokens: { readonly token: string | null; readonly sessionToken: string | null },
  ): Promise<void> {
    const { request, response, requestId, headers } = exchange;
    const address = request.socket.remoteAddress ?? '';
    const caller = { ...tokens, subject: session?.user.userId ?? '', address, requestId };
    const isStart = session !== null && startsRun(request.method, target.path);
    await upstream.pass(request, response, {
      path: target.forward,
      headers: requestHeaders(request.headers, caller),
      answerHeaders: headers,
      ...(isStart ? { look: (text) => noteStart(session, requestId, startedIn(text)) } : {}),
    });
  }

  function noteStart(session: Session, requestId: string, executionId: number | null): void {
    if (executionId === null) return;
    runs.started({ executionId, requestId, sessionKey: sessionKey(session), token: session.token });
  }

  async function me(exchange: Exchange): Promise<void> {
    const session = await sessions.of(exchange.request);
    sendJson(exchange, 200, {
      user: userOf(session),
      roles: [session.role],
      csrf_token: session.csrfToken,
      expires_at: session.expiresAt,
    });
  }

  async function logout(exchange: Exchange): Promise<void> {
    const session = await sessions.of(exchange.request);
    checkCsrf(exchange.request, session, origins);
    await sessions.revoke(session);
    const body = { logout_url: rules.logoutUrl };
    sendJson(exchange, 200, body, { 'set-cookie': [cookies.clear(cookies.session)] });
  }

  async function validate(exchange: Exchange): Promise<void> {
    const session = await sessionIn(await bodyOf(exchange.request));
    sendJson(exchange, 200, {
      valid: session !== null,
      user: session === null ? null : userOf(session),
      expires_at: session?.expiresAt ?? null,
      message: session === null ? 'Invalid or expired session' : 'The session is valid',
    });
  }

  async function checkAccess(exchange: Exchange): Promise<void> {
    const body = await bodyOf(exchange.request);
    const { playbook_path: path, permission_type: permission } = body;
    const needed =
      typeof permission === 'string' && Object.hasOwn(PERMISSIONS, permission) ? PERMISSIONS[permission] : undefined;
    if (typeof path !== 'string' || needed === undefined) {
      throw new Misfits(['body: needs playbook_path, and permission_type view, execute or modify']);
    }
    const session = await sessionIn(body);
    if (session?.token != null && access !== null) {
      // The rules of the playbook are the server's to know.
      const asked = { session_token: session.token, playbook_path: path, permission_type: String(permission) };
      const { allowed, user, message } = await access.checkAccess(asked);
      sendJson(exchange, 200, { allowed, user, playbook_path: path, permission_type: permission, message });
      return;
    }
    const allowed = session !== null && includes(session.role, needed);
    sendJson(exchange, 200, {
      allowed,
      user: session === null ? null : userOf(session),
      playbook_path: path,
      permission_type: permission,
      message: session === null ? 'Invalid or expired session' : allowed ? 'Allowed' : `This needs the role ${needed}`,
    });
  }

  async function sessionIn(body: Readonly<Record<string, unknown>>): Promise<Session | null> {
    const token = body['session_token'];
    if (typeof token !== 'string') throw new Misfits(['body.session_token: must be text']);
    return sessions.byToken(token);
  }

  function contract(): object {
    return {
      auth: login?.described ?? { mode: 'dev', login_url: '/auth/login', issuer: null, client_id: null },
      public_url: rules.publicUrl,
      proxy_prefixes: rules.proxyPrefixes,
      allow_skip_auth: false,
      features: { sse: true },
    };
  }
}

async function bodyOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const body = await readBody(request);
  if (body === null) throw new Misfits(['body: must be a small JSON object']);
  return body;
}

export function userOf({ user, role }: Pick<Session, 'user' | 'role'>): object {
  return { user_id: user.userId, email: user.email, display_name: user.displayName, roles: [role] };
}
