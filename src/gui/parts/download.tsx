/** A file of the API to keep. */
import type { ComponentChildren } from 'preact';
import { address, downloadWithToken } from '../core/api.ts';
import { say } from './toasts.tsx';

interface DownloadProps {
  readonly path: string;
  readonly name: string;
  readonly tiny?: boolean;
  readonly children: ComponentChildren;
}

export function Download({ path, name, tiny = false, children }: DownloadProps) {
  const click = (event: MouseEvent): void => {
    const fetched = downloadWithToken(path, name);
    if (fetched === null) return;
    event.preventDefault();
    fetched().catch((error: unknown) => say(error instanceof Error ? error.message : String(error), true));
  };
  return (
    <a class={tiny ? 'button tiny' : 'button'} href={address(path)} download={name} onClick={click}>
      {children}
    </a>
  );
}
