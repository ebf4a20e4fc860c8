/** Catalog paths (api 1.3): where a document is kept, and the only spelling it is kept under. */

const GRAMMAR = /^[A-Za-z0-9_][A-Za-z0-9_.-]*(\/[A-Za-z0-9_][A-Za-z0-9_.-]*){0,15}$/;
const BYTES_MAX = 255;

/** The path without outer slashes; null when it does not fit the grammar, which leaves no room for `..` or an empty part. */
export function readCatalogPath(text: string): string | null {
  // Bounded before any pattern runs over it; the grammar is ASCII, so characters are bytes.
  if (text.length > 4 * BYTES_MAX) return null;
  const path = text.replace(/^\/+/, '').replace(/\/+$/, '');
  return path.length <= BYTES_MAX && GRAMMAR.test(path) ? path : null;
}

/** The last part: the name of a document that says none. */
export function lastSegment(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
