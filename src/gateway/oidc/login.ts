/**
 * Logging in at an identity provider (api 2.19, 8.8): authorization code with PKCE, bound to the browser by a cookie, and
 * a fresh session of the API at the end. The provider's tokens never leave the gateway.
 */
import type { Log } from '../../log.ts';
import type { Outbound } from '../../tools/http/outbound.ts';
import type { Role } from '../access.ts';
import { type Cookies, cookieOf } from '../cookies.ts';
import { type Exchange, redirect, sendJson } from '../exchange.ts';
import type { Login } from '../login.ts';
import type { Origins } from '../origins.ts';
import { Misfits, Refusal } from '../refusal.ts';
import { isSameText } from '../session.ts';
import { type SessionStore, textOf } from '../session-store.ts';
import { challengeOf, createFlowSeal, FLOW_SECONDS, newFlow } from './flow.ts';
import { BadToken, type Claims, verifyIdToken } from './id-token.ts';
import { createProvider, ProviderError } from './provider.ts';
import { returnTo } from './return-to.ts';
import { type RoleRules, roleOf } from './roles.ts';

export interface OidcOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | null;
  readonly audience: string;
  readonly scopes: string;
  readonly redirectUrl: string;
  readonly publicUrl: string;
  readonly roles: RoleRules;
  /** Shared by the gateways of a service. */
  readonly secret: string;
}

export interface OidcParts {
  readonly store: SessionStore;
  readonly origins: Origins;
  readonly cookies: Cookies;
  readonly log: Log;
  readonly now: () => number;
  /** What the provider is asked through. */
  readonly outbound: Pick<Outbound, 'send'>;
}

/** Why a login failed, as far as its user is told. */
class Failed extends Error {
  readonly code: 'expired' | 'denied' | 'provider' | 'refused' | 'unavailable';
  constructor(code: Failed['code'], message: string) {
    super(message);
    this.code = code;
  }
}

const TEXT_MAX = 256;

export function createOidcLogin(options: OidcOptions, parts: OidcParts): Login {
  const { store, origins, cookies, log, now, outbound } = parts;
  const { issuer, clientId, audience } = options;
  const provider = createProvider({ ...options, now, outbound });
  const flows = createFlowSeal(options.secret);

  return {
    described: { mode: 'oidc', login_url: '/auth/login', issuer, client_id: clientId },
    async begin(exchange, query) {
      const flow = newFlow(returnTo(query.get('return_to'), options.publicUrl, origins), now());
      await told(exchange, async () => {
        const url = new URL((await provider.metadata()).authorizationEndpoint);
        const asked = {
          response_type: 'code',
          client_id: clientId,
          redirect_uri: options.redirectUrl,
          scope: options.scopes,
          state: flow.state,
          nonce: flow.nonce,
          code_challenge: challengeOf(flow.verifier),
          code_challenge_method: 'S256',
        };
        for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
        redirect(exchange, 302, url.href, [cookies.set(cookies.login, flows.seal(flow), FLOW_SECONDS)]);
      });
    },
    finish: (exchange, query) =>
      told(exchange, async () => {
        const sealed = cookieOf(exchange.request.headers.cookie, cookies.login);
        const flow = sealed === null ? null : flows.open(sealed, now());
        if (flow === null) throw new Failed('expired', 'no login is under way in this browser');
        if (!isSameText(single(query, 'state') ?? '', flow.state)) throw new Failed('expired', 'the state is another');
        const { namesIssuer } = await provider.metadata();
        const iss = single(query, 'iss');
        if (iss === null ? namesIssuer : iss !== issuer) throw new Failed('provider', 'another issuer answers');
        if (query.has('error')) throw new Failed('denied', 'the provider refuses');
        const code = single(query, 'code');
        if (code === null) throw new Failed('provider', 'the provider sent no code');
        const claims = await verified(await provider.redeem(code, flow.verifier), flow.nonce);
        const { token, expiresAt } = await begun(exchange, claims, permitted(claims));
        redirect(exchange, 302, flow.returnTo, [
          cookies.set(cookies.session, token, (Date.parse(expiresAt) - now()) / 1000),
          cookies.clear(cookies.login),
        ]);
      }),
    async exchangeToken(exchange, body) {
      const idToken = textOf(body['id_token']) ?? textOf(body['auth0_token']);
      if (idToken === null) throw new Misfits(['body.id_token: must be text']);
      const { claims, role } = await tokenOf(exchange, idToken);
      const { token, expiresAt } = await begun(exchange, claims, role);
      sendJson(exchange, 200, {
        status: 'authenticated',
        session_token: token,
        user: {
          user_id: claims.sub,
          email: shortText(claims['email']),
          display_name: shortText(claims['name']),
          roles: [role],
        },
        expires_at: expiresAt,
        message: 'Authenticated',
      });
    },
  };

  function verified(idToken: string, nonce: string | null): Promise<Claims> {
    return verifyIdToken(idToken, (kid) => provider.keys(kid), { issuer, audience, clientId, nonce, now: now() });
  }

  function permitted(claims: Claims): Role {
    const role = roleOf(claims, options.roles);
    if (role === null) throw new Failed('refused', 'no role is given');
    return role;
  }

  async function tokenOf(exchange: Exchange, idToken: string): Promise<{ claims: Claims; role: Role }> {
    try {
      const claims = await verified(idToken, null);
      return { claims, role: permitted(claims) };
    } catch (error) {
      noteFailure(exchange, error);
      if (error instanceof ProviderError) throw new Refusal('upstream_failed', 'The identity provider did not answer');
      throw new Refusal('unauthenticated', 'The ID token is not accepted');
    }
  }

  function begun(exchange: Exchange, claims: Claims, role: Role) {
    const { headers, socket } = exchange.request;
    return store.create({
      subject: claims.sub,
      email: shortText(claims['email']),
      displayName: shortText(claims['name']),
      roles: [role],
      userAgent: headers['user-agent']?.slice(0, TEXT_MAX) ?? null,
      ip: socket.remoteAddress ?? null,
    });
  }

  /** A failed login ends at a page that says so; what was wrong stands in the log only. */
  async function told(exchange: Exchange, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const code = noteFailure(exchange, error);
      redirect(exchange, 303, `/auth/error?code=${code}`, [cookies.clear(cookies.login)]);
    }
  }

  function noteFailure(exchange: Exchange, error: unknown): Failed['code'] {
    const known = error instanceof Failed || error instanceof BadToken || error instanceof ProviderError;
    if (!known && !(error instanceof Refusal)) throw error;
    const { message: reason, cause } = error;
    log.warn('A login failed', {
      request_id: exchange.requestId,
      reason,
      ...(cause === undefined ? {} : { error: cause }),
    });
    if (error instanceof Failed) return error.code;
    return error instanceof Refusal ? 'unavailable' : 'provider';
  }
}

/** A parameter that is there exactly once. */
function single(query: URLSearchParams, name: string): string | null {
  const values = query.getAll(name);
  return values.length === 1 ? (values[0] ?? null) : null;
}

function shortText(value: unknown): string | null {
  return textOf(value)?.slice(0, TEXT_MAX) ?? null;
}
