/**
 * Sessions for the gateway (api 2.18), and what a GUI without a gateway asks. A caller that brings a token is the gateway:
 * it gets a judgement or a refusal, never the "anyone is admin" of open mode, so that a server without SVC_INTERNAL_TOKEN
 * cannot make a gateway let everyone in.
 */
import type { IncomingHttpHeaders } from 'node:http';
import * as v from 'valibot';
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
import { type Route, route } from './route.ts';

const tag = 'Sessions';
const ANYONE = { user_id: 'open', email: null, display_name: 'Open mode', roles: ['admin'] };

export function sessionRoutes({ services, internalToken }: ApiContext): Route[] {
  const { sessions } = services;
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
        if (found === null) {
          return { status: 'ok', valid: false, user: null, expires_at: null, error: 'Invalid or expired session' };
        }
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
      summary: 'For GUIs without a gateway: in open mode everyone is an admin',
      body: v.object({ session_token: maybe(sessionToken) }),
      answer: validityAnswer,
      handle: () => ({ valid: true, user: ANYONE, expires_at: null, message: 'Open mode' }),
    }),
    route({
      method: 'POST',
      path: '/api/auth/check-access',
      level: 'client',
      role: ['P'],
      tag,
      summary: 'For GUIs without a gateway: in open mode everything is allowed',
      body: v.object({
        session_token: maybe(sessionToken),
        playbook_path: maybe(text(1024)),
        permission_type: maybe(word('view', 'execute', 'modify')),
      }),
      answer: accessAnswer,
      handle: ({ body }) => ({
        allowed: true,
        user: ANYONE,
        playbook_path: body.playbook_path ?? null,
        permission_type: body.permission_type ?? null,
        message: 'Open mode',
      }),
    }),
  ];

  function isJudged(headers: IncomingHttpHeaders): boolean {
    const token = internalToken(headers);
    if (token === 'wrong') throw new RequestError('unauthenticated', 'This needs the token of SVC_INTERNAL_TOKEN');
    const isGateway = headers.authorization !== undefined || headers['x-session-token'] !== undefined;
    if (token === 'unset' && isGateway) {
      throw new RequestError('not_configured', 'Sessions are judged where SVC_INTERNAL_TOKEN is set');
    }
    return token === 'right';
  }
}
