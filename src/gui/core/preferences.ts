/** What one reader likes, remembered in this browser: theme, how instants are written, saved views of the list. */
import { effect, signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark' | 'contrast';
export type TimeStyle = 'relative' | 'local' | 'utc';

export const THEMES: readonly Theme[] = ['system', 'light', 'dark', 'contrast'];
export const TIME_STYLES: readonly TimeStyle[] = ['relative', 'local', 'utc'];

export interface SavedView {
  readonly name: string;
  readonly query: string;
}

export const theme = signal<Theme>(oneOf(read('theme'), THEMES, 'system'));
export const timeStyle = signal<TimeStyle>(oneOf(read('time'), TIME_STYLES, 'relative'));
export const savedViews = signal<readonly SavedView[]>(readViews());

export function startPreferences(): void {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value;
    write('theme', theme.value);
  });
  effect(() => write('time', timeStyle.value));
  effect(() => write('views', JSON.stringify(savedViews.value)));
  // What another tab changed holds here too, and is not written over by what was read before.
  addEventListener('storage', ({ key }) => {
    if (key === 'callboard.theme') theme.value = oneOf(read('theme'), THEMES, 'system');
    if (key === 'callboard.time') timeStyle.value = oneOf(read('time'), TIME_STYLES, 'relative');
    if (key === 'callboard.views') savedViews.value = readViews();
  });
}

function read(key: string): string | null {
  try {
    return localStorage.getItem(`callboard.${key}`);
  } catch {
    return null;
  }
}

function write(key: string, value: string): void {
  try {
    localStorage.setItem(`callboard.${key}`, value);
  } catch {
    // A browser that keeps nothing forgets it at the end of the visit.
  }
}

function oneOf<T extends string>(value: string | null, all: readonly T[], otherwise: T): T {
  return all.find((each) => each === value) ?? otherwise;
}

function readViews(): readonly SavedView[] {
  try {
    const value: unknown = JSON.parse(read('views') ?? '[]');
    if (!Array.isArray(value)) return [];
    return value.filter(
      (each): each is SavedView =>
        typeof each === 'object' && each !== null && typeof each.name === 'string' && typeof each.query === 'string',
    );
  } catch {
    return [];
  }
}
