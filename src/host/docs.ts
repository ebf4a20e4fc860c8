/**
 * The documentation (api 1.16), served from the package: `/openapi.json`, the interactive `/docs` and the reading view
 * `/redoc`. No page asks any other origin for anything, and the policy they are sent with would not let it.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { FastifyReply } from 'fastify';
import type { JsonMap } from '../../machines/json.ts';
import { type Route, route } from '../api/route.ts';
import { createOpenApi } from './openapi.ts';
import { READING_STYLE, readingView } from './reading-view.ts';

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const DOCS_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Callboard API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="/docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

const START_SCRIPT = `window.ui = SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: -1,
});
`;

/** Files of swagger-ui-dist that the page needs, by name. */
const ASSETS: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
};

/** `documented` is the table without these rows; they describe themselves too. */
export function docsRoutes(documented: readonly Route[], version: string): readonly Route[] {
  const pages: readonly Route[] = [
    page('/openapi.json', 'The OpenAPI document', 'application/json', (reply) =>
      reply.type('application/json; charset=utf-8').send(text()),
    ),
    page('/docs', 'Interactive documentation', 'text/html', (reply) => html(reply, DOCS_PAGE)),
    page('/redoc', 'Documentation to read', 'text/html', (reply) => html(reply, reading())),
  ];
  const document = once((): JsonMap => createOpenApi([...documented, ...pages], version));
  const text = once((): string => JSON.stringify(document()));
  const reading = once((): string => readingView(document()));
  const folder = once(() => dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json')));
  const assets = Object.entries(ASSETS).map(([name, type]) => {
    const bytes = once(() => readFileSync(join(folder(), name)));
    return asset(`/docs/${name}`, (reply) => reply.type(type).send(bytes()));
  });
  return [
    ...pages,
    ...assets,
    asset('/docs/start.js', (reply) => reply.type('text/javascript; charset=utf-8').send(START_SCRIPT)),
    asset('/redoc/style.css', (reply) => reply.type('text/css; charset=utf-8').send(READING_STYLE)),
  ];
}

function page(path: string, summary: string, mediaType: string, send: (reply: FastifyReply) => unknown): Route {
  return route({
    method: 'GET',
    path,
    level: 'seed',
    role: ['P'],
    tag: 'Documentation',
    summary,
    mediaType,
    handle: ({ reply }) => send(reply),
  });
}

/** Parts of a page: no operations of their own. */
function asset(path: string, send: (reply: FastifyReply) => unknown): Route {
  return { ...page(path, 'Part of a page', '*/*', send), part: true };
}

function html(reply: FastifyReply, text: string): FastifyReply {
  return reply.header('content-security-policy', POLICY).type('text/html; charset=utf-8').send(text);
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | null = null;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
