/**
 * The address of a request, read once. Rules look at `path`, the server gets `forward`, and both come from the same
 * decoded segments, so that no spelling (escapes, dots, doubled slashes, `;`) means one thing here and another there.
 */

export interface Target {
  /** Decoded, without a slash at the end; `/svc/x` already reads `/api/x`. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Path and query as they are sent on. */
  readonly forward: string;
}

const URL_BYTES_MAX = 8_192;

/** Null for an address that has no single meaning. `prefixes` stand for `/api`. */
export function readTarget(url: string, prefixes: readonly string[]): Target | null {
  if (!url.startsWith('/') || url.length > URL_BYTES_MAX || /[#;\\]/.test(url)) return null;
  const mark = url.indexOf('?');
  const rawPath = mark === -1 ? url : url.slice(0, mark);
  const segments = segmentsOf(rawPath);
  if (segments === null) return null;
  const path = canonical(`/${segments.join('/')}`, prefixes);
  // An escaped slash stays inside its segment for the server, while rules see the slash: the stricter reading of both.
  const sent = canonical(`/${segments.map(encodeURIComponent).join('/')}`, prefixes);
  const query = new URLSearchParams(mark === -1 ? '' : url.slice(mark + 1));
  const text = query.toString();
  return { path, query, forward: text === '' ? sent : `${sent}?${text}` };
}

function segmentsOf(rawPath: string): readonly string[] | null {
  const raw = rawPath.slice(1).split('/');
  if (raw.at(-1) === '') raw.pop();
  const segments: string[] = [];
  for (const each of raw) {
    const segment = decoded(each);
    if (segment === null || segment === '' || !isPlain(segment)) return null;
    segments.push(segment);
  }
  return segments;
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function isPlain(segment: string): boolean {
  if (/[\p{Cc}\\;]/u.test(segment)) return false;
  return segment.split('/').every((part) => part !== '.' && part !== '..' && part !== '');
}

function canonical(path: string, prefixes: readonly string[]): string {
  for (const prefix of prefixes) {
    if (path === prefix || path.startsWith(`${prefix}/`)) return `/api${path.slice(prefix.length)}`;
  }
  return path;
}
