/** Sessions, tokens and who they belong to, composed over their stores; and what a start in enforce mode must not be silent about. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createIdentityService } from '../../actors/access-service.ts';
import type { AuditRow, CurrentCaller } from '../../actors/audit.ts';
import { createDenialLog } from '../../actors/denials.ts';
import type { Bus, Clock, Ids, Log } from '../../actors/ports.ts';
import type { Services } from '../../actors/services.ts';
import { createSessionService, type SessionStore } from '../../actors/session-service.ts';
import { createTokenService, type TokenStore } from '../../actors/token-service.ts';
import type { Config } from '../config.ts';
import { isLoopback } from './address.ts';

export interface AccessParts {
  readonly sessions: SessionStore;
  readonly tokens: TokenStore;
  readonly insertAudit: (row: AuditRow) => Promise<void>;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Log;
  readonly caller: CurrentCaller;
}

export type AccessConfig = Pick<
  Config,
  'authMode' | 'host' | 'internalToken' | 'apiTokens' | 'sessionIdleSeconds' | 'sessionMaxSeconds'
>;

export function composeAccess(
  config: AccessConfig,
  parts: AccessParts,
): Pick<Services, 'sessions' | 'tokens' | 'identities' | 'denials'> {
  const { ids, clock, bus, log, caller } = parts;
  const chance = () => randomBytes(32).toString('base64url');
  const sessions = createSessionService({
    store: parts.sessions,
    ids,
    bus,
    caller,
    newToken: chance,
    digest: sha256,
    idleSeconds: config.sessionIdleSeconds,
    maxSeconds: config.sessionMaxSeconds,
  });
  const tokens = createTokenService({
    store: parts.tokens,
    ids,
    bus,
    caller,
    newSecret: chance,
    digest: sha256,
    isSame: timingSafeEqual,
  });
  const identities = createIdentityService({
    sessions,
    serviceToken: tokens.find,
    staticTokens: config.apiTokens,
    internalToken: config.internalToken,
    bus,
    clock,
    digest: sha256,
    isSame: timingSafeEqual,
  });
  return { sessions, tokens, identities, denials: createDenialLog({ insert: parts.insertAudit, ids, clock, log }) };
}

/** Says once, at the start, what an operator should know about who gets in. */
export async function warnOfAccess(
  { authMode, host, internalToken, apiTokens }: AccessConfig,
  tokens: Pick<Services['tokens'], 'list'>,
  log: Log,
): Promise<void> {
  if (authMode === 'open') {
    if (!isLoopback(host)) {
      log.warn(
        'Everyone who reaches this address is an admin; set SVC_AUTH_MODE=enforce, or let only a gateway reach it',
        {
          host,
        },
      );
    }
    return;
  }
  if (internalToken !== null || apiTokens.length > 0) return;
  const known = await tokens.list();
  if (known.every(({ revokedAt }) => revokedAt !== null)) {
    log.warn(
      'Nobody can get in: there is no token yet. Set SVC_INTERNAL_TOKEN, restart, and use `callboard token create`',
    );
  }
}

function sha256(text: string): Uint8Array {
  return createHash('sha256').update(text, 'utf8').digest();
}
