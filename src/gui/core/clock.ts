/** The present, once a second while somebody looks, for everything that says "12 s ago". */
import { signal } from '@preact/signals';

export const now = signal(Date.now());

export function startClock(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') now.value = Date.now();
  }, 1000);
}
