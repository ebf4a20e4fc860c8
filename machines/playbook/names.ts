/** The words of the language: reserved roots, identifiers, and how a location in a document is spelled. */

/** Roots nothing can shadow (language 8.2, marked R). */
export const RESERVED_ROOTS: ReadonlySet<string> = new Set([
  'workload',
  'ctx',
  'steps',
  'args',
  'execution_id',
  'catalog_id',
  'job',
  'event',
  'iter',
  'keychain',
]);

/** True for what nothing in a document can be called: the reserved roots, and the key that no map may have (language 8.12). */
export function isReserved(name: string): boolean {
  return name === '__proto__' || RESERVED_ROOTS.has(name);
}

/** Names the engine binds itself; a step or label of such a name is hidden where they are defined (language 3.3). */
export const SHADOWING_NAMES: ReadonlySet<string> = new Set(['output', 'error', 'loop', 'results', 'result']);

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** True for a name a template can use bare. */
export function isIdentifier(text: string): boolean {
  return IDENTIFIER.test(text);
}

/** True when the text has an expression or a statement to render. */
export function hasTemplate(text: string): boolean {
  return text.includes('{{') || text.includes('{%');
}

/** `base.key`, `base[0]`, `base['odd key']`: the spelling of places in reports (language 3.1). */
export function memberPath(base: string, key: string | number): string {
  if (typeof key === 'number') return `${base}[${key}]`;
  if (!/^[A-Za-z_][A-Za-z0-9_-]*$/.test(key)) return `${base}['${key}']`;
  return base === '' ? key : `${base}.${key}`;
}

/** A name as it is quoted in messages; hostile names are cut. */
export function shown(name: string): string {
  return name.length > 100 ? `${name.slice(0, 100)}…` : name;
}
