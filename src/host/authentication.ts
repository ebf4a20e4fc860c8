/**
 * Who calls, and whether the row of the route table is open to them (api 1.13). Each route brings its own marks and what
 * has none is open to nobody, so that no spelling of an address can lead around the check. The internal token stands
 * beside the roles: where one is set, /api/admin and /api/internal want it too.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Identity, IdentityService } from '../../actors/access-service.ts';
import type { Caller } from '../../actors/audit.ts';
import type { DenialLog } from '../../actors/denials.ts';
import { admits, ROLE_OF_MARK, type RoleMark } from '../../machines/access.ts';
import { givenTokens } from '../api/given-tokens.ts';
import { RequestError } from '../errors.ts';
import { INTERNAL_TOKEN_MISSING, isGuardedPath } from './internal-guard.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Of the row; a route without it is nobody's. */
    roles?: readonly RoleMark[];
    /** Its answer is an event stream. */
    isStream?: boolean;
  }
  interface FastifyRequest {
    /** Who calls, where that is known: in enforce mode whoever is let in, else null. */
    identity: Identity | null;
    /** The token that says so, to be asked about again while a stream is open. */
    identityToken: string | null;
  }
}

const MISSING = 'Missing authentication token';
const BAD_SESSION = 'Invalid or expired session';
const BAD_TOKEN = 'Invalid or expired token';
const CHALLENGE = { 'www-authenticate': 'Bearer realm="callboard"' };

export interface AuthenticationParts {
  readonly identities: IdentityService;
  readonly denials: DenialLog;
  /** Whether a token is that of SVC_INTERNAL_TOKEN; null: none is set. */
  readonly isInternal: ((token: string) => boolean) | null;
}

/** Sets `request.identity`, or throws RequestError 401 or 403. Runs before the body is read. */
export function createAuthentication({ identities, denials, isInternal }: AuthenticationParts) {
  return async (request: FastifyRequest): Promise<void> => {
    // Nothing is there, and the handler of such addresses says so.
    if (request.is404) return;
    const roles = request.routeOptions.config.roles ?? [];
    if (roles.includes('P')) return;
    const given = givenTokens(request.headers);
    const carriesInternal = given.some((token) => isInternal?.(token) === true);
    // Beside the internal token, the other one says who it is.
    const token = given.find((each) => isInternal?.(each) !== true) ?? given[0];
    if (token === undefined) throw unauthenticated(MISSING);
    const identity = await identities.identify(token);
    if (identity === null) {
      denials.note('session.denied', targetOf(request), callerOf(request, null));
      throw unauthenticated(token.startsWith('cb_') ? BAD_TOKEN : BAD_SESSION);
    }
    request.identity = identity;
    request.identityToken = token;
    if (!admits(roles, identity.role)) throw new RequestError('forbidden', roleSentence(roles));
    if (isInternal !== null && !carriesInternal && isGuardedPath(request.routeOptions.url ?? '')) {
      throw unauthenticated(INTERNAL_TOKEN_MISSING);
    }
  };
}

/** Whoever is let in and may not do this leaves a trace, wherever it was found out: by route, by rule or by what is held. */
export function createDenialNote(denials: DenialLog) {
  return (request: FastifyRequest, _reply: FastifyReply, error: Error, done: () => void): void => {
    const { identity } = request;
    if (identity !== null && 'code' in error && error.code === 'forbidden') {
      denials.note('access.denied', targetOf(request), callerOf(request, identity));
    }
    done();
  };
}

/**
 * In open mode nobody is asked for a token, but a gateway brings those of its users: a stream is counted as its user's, not
 * as one of the gateway's address, and ends with the session. It changes nothing about what the caller may do.
 */
export function createStreamOwners(identities: IdentityService) {
  return (request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void => {
    const [token] = request.routeOptions.config.isStream === true ? givenTokens(request.headers) : [];
    if (token === undefined) {
      done();
      return;
    }
    identities.identify(token).then((identity) => {
      request.identity = identity;
      request.identityToken = token;
      done();
    }, done);
  };
}

/** Rows of one address that differ in the verb behind it are told apart only in the handler: the second look. */
export function checkRole(request: FastifyRequest, roles: readonly RoleMark[]): void {
  const { identity } = request;
  if (identity !== null && !admits(roles, identity.role)) throw new RequestError('forbidden', roleSentence(roles));
}

/** Without an identity it is a public door, and nobody in particular. */
export function callerOf(request: FastifyRequest, identity: Identity | null): Caller {
  return {
    actor: identity?.actor ?? 'anonymous',
    role: identity?.role ?? 'public',
    requestId: request.id,
    ip: request.ip,
  };
}

function unauthenticated(sentence: string): RequestError {
  return new RequestError('unauthenticated', sentence, { headers: CHALLENGE });
}

function roleSentence(roles: readonly RoleMark[]): string {
  const names = roles.flatMap((mark) => (mark === 'P' ? [] : [ROLE_OF_MARK[mark]]));
  return names.length === 0 ? 'This is open to nobody' : `This needs the role ${names.join(' or ')}`;
}

function targetOf(request: FastifyRequest): string {
  return `${request.method} ${request.routeOptions.url ?? ''}`.slice(0, 256);
}
