/**
 * Starts the gateway, or refuses to: a gate with an unsafe setting is worse than none. All problems are told together.
 */
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { type Config, ConfigError } from '../config.ts';
import type { Log } from '../log.ts';
import { createEgress } from '../tools/http/egress.ts';
import { createOutbound, type Outbound } from '../tools/http/outbound.ts';
import { type Changes, followChanges } from './changes.ts';
import { type Cookies, createCookies } from './cookies.ts';
import { createEventHub } from './event-hub.ts';
import { createGateway } from './gateway.ts';
import type { Login } from './login.ts';
import { createOidcLogin } from './oidc/login.ts';
import { ANSWER_MAX } from './oidc/provider.ts';
import { readRoleMap } from './oidc/roles.ts';
import { createOrigins, type Origins } from './origins.ts';
import { createRunWatch } from './run-watch.ts';
import { createDevSessions, createStoredSessions, type Sessions } from './session.ts';
import { createSessionStore, type SessionStore } from './session-store.ts';
import { createUpstream } from './upstream.ts';

export type GatewayConfig = Pick<
  Config,
  | 'gatewayHost'
  | 'gatewayPort'
  | 'gatewayUpstream'
  | 'gatewayProxyPrefixes'
  | 'gatewaySensitive'
  | 'gatewayAuth'
  | 'gatewayOrigins'
  | 'gatewayPublicUrl'
  | 'oidcIssuer'
  | 'oidcClientId'
  | 'oidcClientSecret'
  | 'oidcAudience'
  | 'oidcScopes'
  | 'oidcRolesClaim'
  | 'oidcRoleMap'
  | 'oidcDefaultRole'
  | 'oidcRedirectUrl'
  | 'oidcLogoutUrl'
  | 'internalToken'
  | 'bodyLimitBytes'
  | 'egressPolicy'
  | 'egressAllow'
  | 'egressDeny'
>;

export interface RunningGateway {
  readonly url: string;
  stop(): Promise<void>;
}

const TIMEOUT_MS = 300_000;
const HEADERS_BYTES_MAX = 16_384;

/** Throws ConfigError, or the error of the socket when it cannot listen. */
export async function startGateway(config: GatewayConfig, log: Log): Promise<RunningGateway> {
  const authority = config.gatewayHost.includes(':') ? `[${config.gatewayHost}]` : config.gatewayHost;
  refuseUnsafe(config, config.gatewayPublicUrl ?? `http://${authority}:${config.gatewayPort}`);
  const server = createServer({
    requestTimeout: TIMEOUT_MS,
    headersTimeout: 10_000,
    maxHeaderSize: HEADERS_BYTES_MAX,
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(config.gatewayPort, config.gatewayHost, () => resolve());
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : config.gatewayPort;
  const url = `http://${authority}:${port}`;

  const upstream = createUpstream({
    url: config.gatewayUpstream,
    bodyLimitBytes: config.bodyLimitBytes,
    timeoutMs: TIMEOUT_MS,
  });
  const publicUrl = config.gatewayPublicUrl ?? url;
  const origins = createOrigins(config.gatewayOrigins, publicUrl);
  const cookies = createCookies(publicUrl);
  const people =
    config.gatewayAuth === 'dev' ? localPeople() : knownPeople(config, { origins, cookies, log, publicUrl });
  const hub = createEventHub(people.sessions);
  const runs = createRunWatch(config.gatewayUpstream, hub, log);
  hub.onSession((key, isListening) => (isListening ? runs.resume(key) : runs.pause(key)));
  people.changes?.onChange(() => void hub.recheck());
  const handle = createGateway(
    {
      upstream,
      origins,
      cookies,
      log,
      hub,
      runs,
      sessions: people.sessions,
      login: people.login,
      access: people.store,
    },
    {
      publicUrl,
      proxyPrefixes: config.gatewayProxyPrefixes,
      sensitive: config.gatewaySensitive,
      internalToken: config.internalToken,
      isHostAllowed: hostCheck(config.gatewayHost, publicUrl),
      logoutUrl: config.oidcLogoutUrl,
    },
  );
  server.on('request', (request, response) => void handle(request, response));
  return {
    url,
    async stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      hub.close();
      // Streams have no end of their own.
      server.closeAllConnections();
      await closed;
      await Promise.all([upstream.close(), runs.close(), people.close()]);
    },
  };
}

function refuseUnsafe(config: GatewayConfig, publicUrl: string): void {
  const problems: string[] = [];
  try {
    createOrigins(config.gatewayOrigins, publicUrl);
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error));
  }
  for (const prefix of config.gatewayProxyPrefixes) {
    if (!/^(\/[A-Za-z0-9_-]+)+$/.test(prefix)) {
      problems.push(`SVC_GATEWAY_PROXY_PREFIXES must hold paths such as /svc, not '${prefix}'`);
    }
  }
  const isLocal = isLoopback(config.gatewayHost) && isLoopback(new URL(publicUrl).hostname);
  if (config.gatewayAuth === 'dev' && !isLocal) {
    problems.push('SVC_GATEWAY_AUTH=dev makes everyone an admin: it works on loopback only');
  }
  if (config.gatewayAuth === 'oidc') problems.push(...problemsOfOidc(config));
  if (problems.length > 0) throw new ConfigError(problems);
}

function problemsOfOidc(config: GatewayConfig): readonly string[] {
  const problems: string[] = [];
  const needed = {
    SVC_OIDC_ISSUER: config.oidcIssuer,
    SVC_OIDC_CLIENT_ID: config.oidcClientId,
    SVC_INTERNAL_TOKEN: config.internalToken,
    GATEWAY_PUBLIC_URL: config.gatewayPublicUrl,
  };
  for (const [name, value] of Object.entries(needed)) {
    if (value === null) problems.push(`${name} must be set for SVC_GATEWAY_AUTH=oidc`);
  }
  const addresses = { SVC_OIDC_ISSUER: config.oidcIssuer, GATEWAY_PUBLIC_URL: config.gatewayPublicUrl };
  for (const [name, value] of Object.entries(addresses)) {
    if (value === null || !URL.canParse(value)) continue;
    const { protocol, hostname } = new URL(value);
    if (protocol !== 'https:' && !isLoopback(hostname)) problems.push(`${name} must start with https://`);
  }
  try {
    readRoleMap(config.oidcRoleMap);
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error));
  }
  return problems;
}

interface People {
  readonly sessions: Sessions;
  readonly login: Login | null;
  /** Null in `dev`: sessions have no end there. */
  readonly store: SessionStore | null;
  readonly changes: Changes | null;
  close(): Promise<void>;
}

function localPeople(): People {
  const sessions = createDevSessions(randomBytes(32).toString('base64url'));
  return { sessions, login: null, store: null, changes: null, close: async () => {} };
}

function knownPeople(
  config: GatewayConfig,
  world: { readonly origins: Origins; readonly cookies: Cookies; readonly log: Log; readonly publicUrl: string },
): People {
  const { oidcIssuer: issuer, oidcClientId: clientId, internalToken } = config;
  if (issuer === null || clientId === null || internalToken === null) throw new Error('refuseUnsafe lets none pass');
  const now = () => Date.now();
  const outbound = outboundOf(config);
  const store = createSessionStore(config.gatewayUpstream, internalToken);
  const login = createOidcLogin(
    {
      issuer,
      clientId,
      clientSecret: config.oidcClientSecret,
      audience: config.oidcAudience ?? clientId,
      scopes: config.oidcScopes,
      redirectUrl: config.oidcRedirectUrl ?? `${world.publicUrl}/auth/callback`,
      publicUrl: world.publicUrl,
      roles: {
        claim: config.oidcRolesClaim,
        map: readRoleMap(config.oidcRoleMap),
        defaultRole: config.oidcDefaultRole,
      },
      secret: internalToken,
    },
    { ...world, store, now, outbound },
  );
  const changes = followChanges(config.gatewayUpstream, internalToken, world.log);
  return {
    sessions: createStoredSessions({ store, cookieName: world.cookies.session, now, changes }),
    login,
    store,
    changes,
    close: async () => {
      await Promise.all([changes.close(), store.close(), outbound.close()]);
    },
  };
}

/** The identity provider is asked under the egress rules that hold for every process. */
function outboundOf({ egressPolicy: policy, egressAllow: allow, egressDeny: deny }: GatewayConfig): Outbound {
  try {
    return createOutbound(createEgress({ policy, allow, deny }), ANSWER_MAX);
  } catch (error) {
    if (error instanceof RangeError) throw new ConfigError([`SVC_EGRESS_ALLOW or SVC_EGRESS_DENY: ${error.message}`]);
    throw error;
  }
}

/** On loopback only names of this machine are answered, which defeats DNS rebinding (api 8.7). */
function hostCheck(host: string, publicUrl: string): (given: string | undefined) => boolean {
  if (!isLoopback(host)) return () => true;
  const own = new URL(publicUrl).hostname;
  return (given) => {
    const name = URL.canParse(`http://${given}`) ? new URL(`http://${given}`).hostname : '';
    return given !== undefined && (name === own || isLoopback(name));
  };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host);
}
