/**
 * What a map or a list must hold. Types cannot say that a key was put there a moment ago, and a made-up value in its place would hide
 * the defect that took it away.
 */
export function known<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('something that must be there is missing');
  return value;
}

/** The same for what may be null elsewhere. */
export function present<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error('something that must be there is missing');
  return value;
}
