/** A `where` clause that grows with the filters given: conditions are fixed text, values are always parameters. */

export interface Conditions {
  /** Adds a condition; `?` in it stands for the value. */
  add(text: string, value: unknown): void;
  /** Adds a condition without a value. */
  addFixed(text: string): void;
  /** The placeholder of one more value, for use outside the clause. */
  bind(value: unknown): string;
  /** `where a and b`, or nothing. */
  clause(): string;
  readonly values: readonly unknown[];
}

/** `given` are values with placeholders $1 … already used elsewhere in the statement. */
export function createConditions(given: readonly unknown[] = []): Conditions {
  const values = [...given];
  const texts: string[] = [];
  function bind(value: unknown): string {
    values.push(value);
    return `$${values.length}`;
  }
  return {
    values,
    bind,
    add(text, value) {
      const placeholder = bind(value);
      texts.push(text.replaceAll('?', placeholder));
    },
    addFixed(text) {
      texts.push(text);
    },
    clause: () => (texts.length === 0 ? '' : `where ${texts.map((text) => `(${text})`).join(' and ')}`),
  };
}

/** Leaves out what belongs to these versions of playbooks. */
export function addExcept(where: Conditions, catalogIds: readonly number[] | undefined): void {
  if (catalogIds !== undefined && catalogIds.length > 0) where.add('catalog_id <> all(?::bigint[])', catalogIds);
}
