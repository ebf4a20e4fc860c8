/** How /ui/ is served: pages and files, headers, and what happens while there is no GUI. */
import { describe, expect, test } from 'vitest';
import { fakeServices } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

const FILES = new Map(
  Object.entries({
    'index.html': '<!doctype html>page',
    'index.html.gz': 'packed page',
    'assets/main-1a2b.js': 'plain',
    'assets/main-1a2b.js.br': 'brotli',
    'assets/main-1a2b.js.gz': 'gzip',
  }).map(([name, text]) => [name, Buffer.from(text)]),
);

const { app } = testHost(fakeServices(), { gui: async () => FILES });

describe('/ui/', () => {
  test.each(['/ui', '/ui/', '/ui/executions/17/graph', '/ui/playbooks/demo/greet'])(
    '%s answers the page',
    async (url) => {
      const answer = await ask(app, 'GET', url);
      expect([answer.status, answer.text]).toEqual([200, '<!doctype html>page']);
      expect(answer.headers['content-type']).toBe('text/html; charset=utf-8');
      expect(answer.headers['cache-control']).toBe('no-store');
      expect(answer.headers['content-security-policy']).toContain("default-src 'self'");
      expect(answer.headers['content-security-policy']).toContain("frame-ancestors 'none'");
      expect(answer.headers['content-security-policy']).not.toContain('unsafe');
    },
  );

  test('files with a hash in their name may be kept for ever', async () => {
    const answer = await ask(app, 'GET', '/ui/assets/main-1a2b.js');
    expect(answer.text).toBe('plain');
    expect(answer.headers['content-type']).toBe('text/javascript; charset=utf-8');
    expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable');
  });

  test.each([
    ['gzip, deflate, br', 'brotli', 'br'],
    ['gzip', 'gzip', 'gzip'],
    ['br;q=0, gzip', 'gzip', 'gzip'],
    ['identity', 'plain', undefined],
  ])('who accepts %s gets %s', async (accepted, text, encoding) => {
    const answer = await ask(app, 'GET', '/ui/assets/main-1a2b.js', { headers: { 'accept-encoding': accepted } });
    expect([answer.text, answer.headers['content-encoding']]).toEqual([text, encoding]);
    expect(answer.headers['vary']).toBe('Accept-Encoding');
  });

  test('what is told one page is not kept for another', async () => {
    const headers = { origin: 'http://localhost:5173' };
    const answer = await ask(app, 'GET', '/ui/assets/main-1a2b.js', { headers });
    expect(answer.headers['access-control-allow-origin']).toBe(headers.origin);
    expect(answer.headers['vary']).toBe('Origin, Accept-Encoding');
  });

  test('a file of an older build is not found, so that an old page notices', async () => {
    expect((await ask(app, 'GET', '/ui/assets/main-0000.js')).status).toBe(404);
    expect((await ask(app, 'GET', '/ui/assets/main-1a2b.js.br')).status).toBe(404);
  });

  test('a GUI that could not be built is told in a sentence', async () => {
    const broken = testHost(fakeServices(), { gui: () => Promise.reject(new Error('no disk')) });
    const answer = await ask(broken.app, 'GET', '/ui/');
    expect([answer.status, answer.json.code]).toEqual([501, 'not_configured']);
    expect(answer.text).not.toContain('no disk');
  });

  test('a server without GUI has no such address', async () => {
    expect((await ask(testHost(fakeServices()).app, 'GET', '/ui/')).status).toBe(404);
  });
});
