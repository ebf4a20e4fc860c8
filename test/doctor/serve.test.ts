import { afterAll, expect, test } from 'vitest';
import type { Tool } from '../../src/doctor/doctor.ts';
import { serveDoctor } from '../../src/doctor/serve.ts';

const tool = {
  name: 'detect',
  description: 'looks',
  input_schema: {},
  run: async () => ({ action: 'detect', severity: 'ok', generated_at: '2026-11-20T10:15:02.113Z', data: {} }),
} as unknown as Tool;
const served = await serveDoctor(
  {
    tools: [tool],
    thresholds: { staleSeconds: 300, pendingRetrySeconds: 60, maxRows: 200 },
    close: async () => {},
  },
  { host: '127.0.0.1', port: 0 },
);
afterAll(() => served.stop());

async function ask(method: string, path: string, body?: string) {
  const headers = { 'x-request-id': 'req-of-the-caller' };
  const response = await fetch(`${served.url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}

test.each([
  ['GET', '/nothing', 404, 'not_found', null],
  ['POST', '/tools/nothing/invoke', 404, 'not_found', null],
  ['GET', '/tools/detect/invoke', 405, 'method_not_allowed', 'POST'],
  ['POST', '/tools', 405, 'method_not_allowed', 'GET, HEAD'],
  ['DELETE', '/healthz', 405, 'method_not_allowed', 'GET, HEAD'],
  ['POST', '/tools/detect/invoke', 422, 'validation_error', null, '[]'],
  ['POST', '/tools/detect/invoke', 422, 'validation_error', null, '{"max_rows":-1}'],
  // Its sender reads why, though the helper wants none of it.
  ['POST', '/tools/detect/invoke', 413, 'payload_too_large', null, 'x'.repeat(4_000_000)],
])('%s %s is refused with %i in the common form', async (method, path, status, code, allow, body?: string) => {
  const answer = await ask(method, path, body);
  expect([answer.status, answer.headers.get('allow')]).toEqual([status, allow]);
  const told = JSON.parse(answer.text);
  expect(told).toMatchObject({ detail: expect.any(String), code, request_id: 'req-of-the-caller' });
  expect(told.errors).toEqual(code === 'validation_error' ? [told.detail] : undefined);
  expect(answer.headers.get('x-request-id')).toBe('req-of-the-caller');
});

test('overrides that do not fit are all told', async () => {
  const answer = await ask(
    'POST',
    '/tools/detect/invoke',
    '{"max_rows":-1,"stale_seconds":"9","pending_retry_seconds":null}',
  );
  expect(JSON.parse(answer.text).errors).toEqual([
    'body.stale_seconds: must be a number of at least 0',
    'body.max_rows: must be a number of at least 0',
  ]);
});

test('HEAD mirrors GET', async () => {
  expect(await ask('HEAD', '/tools')).toMatchObject({ status: 200, text: '' });
  expect(await ask('HEAD', '/healthz')).toMatchObject({ status: 200, text: '' });
});
