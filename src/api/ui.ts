/**
 * The GUI under `/ui/` (api 2.1): files of the built GUI from memory, and its page for every other address below, since
 * those are the GUI's own. The policy lets the page load, call and embed nothing but this origin.
 *
 * The build may still be under way when the first one asks: that request waits for it.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { RequestError } from '../errors.ts';
import type { GuiFiles } from '../gui/build/built-gui.ts';
import { type Route, route } from './route.ts';

const POLICY =
  "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; img-src 'self' data:";
const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  svg: 'image/svg+xml',
  json: 'application/json; charset=utf-8',
};
const ENCODINGS = ['br', 'gz'] as const;

/** `files` is asked for each request and may reject while there is no GUI; that is answered 503 with its sentence. */
export function uiRoutes(files: () => Promise<GuiFiles>): readonly Route[] {
  return [page('/ui'), page('/ui/{path…}')];

  function page(path: string): Route {
    return {
      ...route({
        method: 'GET',
        path,
        level: 'plus',
        role: ['P'],
        tag: 'GUI',
        summary: 'The GUI; unknown addresses answer its page',
        mediaType: 'text/html',
        codes: ['not_found'],
        waits: true,
        handle: async ({ params, request, reply }) => send(await loaded(files), pathOf(params), request, reply),
      }),
      part: path !== '/ui',
    };
  }
}

async function loaded(files: () => Promise<GuiFiles>): Promise<GuiFiles> {
  try {
    return await files();
  } catch {
    // Whoever loads the files has logged why.
    throw new RequestError('not_configured', 'The GUI could not be built; the log of the server says why');
  }
}

function pathOf(params: unknown): string {
  const path: unknown = Reflect.get(Object(params), 'path');
  return typeof path === 'string' ? path : '';
}

function send(files: GuiFiles, path: string, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const asset = files.has(path) && !/\.(br|gz)$/.test(path);
  // A missing asset is not a page: a browser with an old page must notice.
  if (!asset && path.startsWith('assets/')) throw new RequestError('not_found', `No such resource: GET /ui/${path}`);
  const name = asset ? path : 'index.html';
  const type = TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
  reply.type(type).header('vary', request.headers.origin === undefined ? 'Accept-Encoding' : 'Origin, Accept-Encoding');
  // The page is no asset: like every answer it is kept by nobody.
  if (name.endsWith('.html')) reply.header('content-security-policy', POLICY);
  else reply.header('cache-control', name.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'no-cache');
  const accepted = String(request.headers['accept-encoding'] ?? '');
  for (const encoding of ENCODINGS) {
    const bytes = files.get(`${name}.${encoding}`);
    const word = encoding === 'gz' ? 'gzip' : encoding;
    if (bytes === undefined || !new RegExp(`\\b${word}\\b(?!\\s*;\\s*q=0(?:\\.0*)?(?:,|$))`).test(accepted)) continue;
    return reply.header('content-encoding', word).send(bytes);
  }
  return reply.send(files.get(name));
}
