/**
 * Sessions for the gateway (api 2.18), and what a GUI without a gateway asks. A caller that brings a token is judged by
 * it, or refused; it never gets the "anyone is admin" of open mode, so that a server without SVC_INTERNAL_TOKEN cannot
 * make a gateway let everyone in.
 */
import type { IncomingHttpHeaders } from 'node:http';
import * as v from 'valibot';
import type { Identity } from '../../actors/access-service.ts';
import { accessRefusal, mayAccess } from '../../machines/access.ts';
import { RequestError } from '../errors.ts';
import { maybe, text, word } from '../wire/fields.ts';
import {
  accessAnswer,
  createdSession,
  newSession,
  sessionAnswer,
  sessionToken,
  validityAnswer,
} from '../wire/session.ts';
import type { ApiContext } from './context.ts';
import { givenTokens } from './given-tokens.ts';
import { type Route, route } from './route.ts';

const tag = 'Sessions';
const ANYONE = { user_id: 'open', email: null, display_name: 'Open mode', roles: ['admin'] };
const BAD = 'Invalid or expired session';

export function sessionRoutes({ services, isEnforced, isInternal }: ApiContext): Route[] {
  const { sessions, identities, catalog } = services;
  return [
    route({
      method: 'POST',
      path: '/api/internal/sessions',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Begin a session for someone the gateway has identified',
      body: newSession,
      answer: createdSession,
      handle: async ({ body }) => {
        const { token, expiresAt } = await sessions.create({
          subject: body.subject,
          email: body.email ?? null,
          name: body.name ?? null,
          roles: body.roles,
          userAgent: body.user_agent ?? null,
          ip: body.ip ?? null,
          ttlSeconds: body.ttl_seconds ?? null,
        });
        return { session_token: token, expires_at: expiresAt };
      },
    }),
    route({
      method: 'DELETE',
      path: '/api/internal/sessions',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'End the session of a token, or all sessions of someone',
      body: v.object({ session_token: maybe(sessionToken), subject: maybe(text(256, 1)) }),
      answer: v.object({ revoked: v.number() }),
      handle: async ({ body }) => {
        const { session_token: token, subject } = body;
        if (token != null) return { revoked: await sessions.revoke({ token }) };
        if (subject != null) return { revoked: await sessions.revoke({ subject }) };
        throw new RequestError('validation_error', 'body: needs session_token or subject', {
          errors: ['body: needs session_token or subject'],
        });
      },
    }),
    route({
      method: 'POST',
      path: '/api/auth/session/validate',
      level: 'client',
      role: ['A'],
      tag,
      summary: 'Whether a session is alive, and whose it is; asking counts as use',
      body: v.object({ session_token: sessionToken }),
      answer: sessionAnswer,
      codes: ['unauthenticated', 'not_configured'],
      handle: async ({ body, request }) => {
        if (!isJudged(request.headers)) {
          return { status: 'ok', valid: true, user: ANYONE, expires_at: null, error: null };
        }
        const found = await sessions.validate(body.session_token);
        if (found === null) return { status: 'ok', valid: false, user: null, expires_at: null, error: BAD };
        const { subject, email, name, roles, expiresAt } = found;
        const user = { user_id: subject, email, display_name: name, roles: [...roles] };
        return { status: 'ok', valid: true, user, expires_at: expiresAt, error: null };
      },
    }),
    route({
      method: 'POST',
      path: '/api/auth/validate',
      level: 'client',
      role: ['P'],
      tag,
      summary: 'Whether a token is good, and whose it is; in open mode everyone is an admin',
      body: v.object({ session_token: maybe(sessionToken) }),
      answer: validityAnswer,
      handle: async ({ body, request }) => {
        if (isOpenFor(request.headers)) return { valid: true, user: ANYONE, expires_at: null, message: 'Open mode' };
        const who = await identified(body.session_token, request.headers);
        if (who === null) return { valid: false, user: null, expires_at: null, message: BAD };
        return { valid: true, user: userOf(who), expires_at: who.expiresAt, message: 'The session is valid' };
      },
    }),
    route({
      method: 'POST',
      path: '/api/auth/check-access',
      level: 'client',
      role: ['P'],
      tag,
      summary: 'Whether a token may do something with a playbook, by its role and the rules of the playbook',
      body: v.object({
        session_token: maybe(sessionToken),
        playbook_path: maybe(text(1024)),
        permission_type: maybe(word('view', 'execute', 'modify')),
      }),
      answer: accessAnswer,
      handle: async ({ body, request }) => {
        const { playbook_path: path, permission_type: permission } = body;
        const asked = { playbook_path: path ?? null, permission_type: permission ?? null };
        if (isOpenFor(request.headers)) return { allowed: true, user: ANYONE, ...asked, message: 'Open mode' };
        if (path == null || permission == null) {
          const errors = ['body: needs playbook_path, and permission_type view, execute or modify'];
          throw new RequestError('validation_error', errors.join('; '), { errors });
        }
        const who = await identified(body.session_token, request.headers);
        if (who === null) return { allowed: false, user: null, ...asked, message: BAD };
        const rules = await catalog.accessRules(path);
        const allowed = mayAccess(rules, { role: who.role, subject: who.actor }, permission);
        const message = allowed ? 'Allowed' : accessRefusal(who.role, permission);
        return { allowed, user: userOf(who), ...asked, message };
      },
    }),
  ];

  /** In open mode only the gateway is told anything but "everyone is an admin". */
  function isOpenFor(headers: IncomingHttpHeaders): boolean {
    return !isEnforced && !carriesInternal(headers);
  }

  /** The token of the body, else that of the headers. */
  function identified(inBody: string | null | undefined, headers: IncomingHttpHeaders): Promise<Identity | null> {
    const token = inBody ?? givenTokens(headers).find((each) => isInternal?.(each) !== true);
    return token === undefined ? Promise.resolve(null) : identities.identify(token);
  }

  function isJudged(headers: IncomingHttpHeaders): boolean {
    // The table has let in an admin or the gateway already.
    if (isEnforced || carriesInternal(headers)) return true;
    if (isInternal !== null) throw new RequestError('unauthenticated', 'This needs the token of SVC_INTERNAL_TOKEN');
    if (headers.authorization !== undefined || headers['x-session-token'] !== undefined) {
      throw new RequestError('not_configured', 'Sessions are judged where SVC_INTERNAL_TOKEN is set');
    }
    return false;
  }

  function carriesInternal(headers: IncomingHttpHeaders): boolean {
    return isInternal !== null && givenTokens(headers).some(isInternal);
  }
}

function userOf({ actor, email, displayName, role }: Identity) {
  return { user_id: actor, email, display_name: displayName, roles: [role] };
}
