/**
 * Names under which playbooks are tools for others (api 2.14.4). A path may hold what a name may not, so different
 * paths can come to the same name; then each of them bears its catalog id, and a call never reaches another playbook
 * than the one that was listed.
 */

export const TOOL_NAME_MAX = 64;

/** The name of a path as long as nobody else has it. */
export function toolNameOf(path: string): string {
  return path.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, TOOL_NAME_MAX);
}

/** Name → entry; `taken` are names that are not to be had. */
export function nameTools<E extends { readonly path: string; readonly catalogId: number }>(
  entries: readonly E[],
  taken: ReadonlySet<string>,
): ReadonlyMap<string, E> {
  const named = new Map<string, E>();
  const numbered: E[] = [];
  for (const [name, same] of Map.groupBy(entries, ({ path }) => toolNameOf(path))) {
    const [only] = same;
    if (only !== undefined && same.length === 1 && !taken.has(name)) named.set(name, only);
    else numbered.push(...same);
  }
  for (const entry of numbered) {
    const suffix = `_${entry.catalogId}`;
    const name = toolNameOf(entry.path).slice(0, TOOL_NAME_MAX - suffix.length) + suffix;
    const other = named.get(name);
    named.set(name, entry);
    // A path that ends in just this number has the name by chance; its own number tells it apart.
    if (other !== undefined) numbered.push(other);
  }
  return named;
}
