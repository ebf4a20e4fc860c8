import { describe, expect, test } from 'vitest';
import { fakeServices } from './fake-services.ts';
import { ask, CONFIG, testHost } from './test-host.ts';

const INSIDE = { authorization: 'Bearer inside' };
const guarded = { config: { ...CONFIG, internalToken: 'inside' } };
const PATH = '/api/auth/session/validate';
const payload = { session_token: 't'.repeat(43) };

describe('a session is judged for those who bring the internal token', () => {
  test.each([{}, { authorization: 'Bearer guess' }, { 'x-session-token': 'guess' }])(
    '%o is refused',
    async (headers) => {
      const { app } = testHost(fakeServices(), guarded);
      expect((await ask(app, 'POST', PATH, { payload, headers })).status).toBe(401);
      expect(
        (await ask(app, 'POST', '/api/internal/sessions', { payload: { subject: 'u', roles: [] }, headers })).status,
      ).toBe(401);
    },
  );

  test('an unknown one is not valid, whatever the mode', async () => {
    const { json } = await ask(testHost(fakeServices(), guarded).app, 'POST', PATH, { payload, headers: INSIDE });
    expect(json).toEqual({
      status: 'ok',
      valid: false,
      user: null,
      expires_at: null,
      error: 'Invalid or expired session',
    });
  });

  test('a server without the internal token refuses to judge rather than letting everyone in', async () => {
    const { status, json } = await ask(testHost().app, 'POST', PATH, { payload, headers: INSIDE });
    expect([status, json.code]).toEqual([501, 'not_configured']);
  });
});

test('open mode tells a GUI without a gateway that everyone is an admin', async () => {
  const { app } = testHost();
  expect((await ask(app, 'POST', PATH, { payload })).json).toMatchObject({ valid: true, user: { roles: ['admin'] } });
  expect((await ask(app, 'POST', '/api/auth/validate', { payload })).json).toMatchObject({ valid: true });
  const asked = { playbook_path: 'demo/greet', permission_type: 'execute' };
  expect((await ask(app, 'POST', '/api/auth/check-access', { payload: asked })).json).toMatchObject({ allowed: true });
});

test('a session has only roles of people', async () => {
  const { app } = testHost(fakeServices(), guarded);
  const asked = { payload: { subject: 'u', roles: ['worker'] }, headers: INSIDE };
  expect((await ask(app, 'POST', '/api/internal/sessions', asked)).status).toBe(422);
});
