/** A file of the API to keep. */
import type { ComponentChildren } from 'preact';
import { address, downloadWithToken } from '../core/api.ts';
import { say } from './toasts.tsx';

export function Download({ path, name, children }: { path: string; name: string; children: ComponentChildren }) {
  const click = (event: MouseEvent): void => {
    const fetched = downloadWithToken(path, name);
    if (fetched === null) return;
    event.preventDefault();
    fetched().catch((error: unknown) => say(error instanceof Error ? error.message : String(error), true));
  };
  return (
    <a class="button" href={address(path)} download={name} onClick={click}>
      {children}
    </a>
  );
}
