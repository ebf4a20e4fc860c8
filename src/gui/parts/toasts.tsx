/** Short messages about what was just done, read out by screen readers and gone after a while. */
import { signal } from '@preact/signals';

interface Toast {
  readonly id: number;
  readonly text: string;
  readonly bad: boolean;
}

const toasts = signal<readonly Toast[]>([]);
const SHOWN_MS = 6_000;
let count = 0;

export function say(text: string, bad = false): void {
  count += 1;
  const id = count;
  toasts.value = [...toasts.value.slice(-3), { id, text, bad }];
  setTimeout(() => {
    toasts.value = toasts.value.filter((each) => each.id !== id);
  }, SHOWN_MS);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((each) => (
        <div key={each.id} class={each.bad ? 'toast bad' : 'toast'}>
          {each.text}
        </div>
      ))}
    </div>
  );
}
