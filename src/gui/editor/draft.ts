/** Text that is not registered yet, kept for this tab: leaving the editor, or loading the page anew, does not lose it. */

export function readDraft(path: string | null): string | null {
  try {
    return sessionStorage.getItem(keyOf(path));
  } catch {
    return null;
  }
}

/** Null forgets it. */
export function keepDraft(path: string | null, text: string | null): void {
  try {
    if (text === null) sessionStorage.removeItem(keyOf(path));
    else sessionStorage.setItem(keyOf(path), text);
  } catch {
    // A browser that keeps nothing asks before the page is left.
  }
}

function keyOf(path: string | null): string {
  return `callboard.draft ${path ?? ''}`;
}
