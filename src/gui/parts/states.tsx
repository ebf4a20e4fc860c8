/** What a page shows when it has nothing to show: loading, empty, failed, or not known to this server. */
import type { ComponentChildren } from 'preact';
import { ApiError } from '../core/api.ts';
import { Icon, type IconName } from './icons.tsx';

export function Loading({ what }: { what: string }) {
  return (
    <div class="bones" role="status">
      <span />
      <span />
      <span />
      <p class="visually-hidden">Loading {what}</p>
    </div>
  );
}

export function Empty({
  icon = 'circle',
  title,
  children,
}: {
  icon?: IconName;
  title: string;
  children?: ComponentChildren;
}) {
  return (
    <div class="state">
      <div class="glyph">
        <Icon name={icon} size={20} />
      </div>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Failed({ error, retry }: { error: Error; retry?: () => void }) {
  const api = error instanceof ApiError ? error : null;
  const offline = api?.code === 'offline';
  const title = offline ? 'The server does not answer' : api?.status === 404 ? 'Not found' : 'This could not be loaded';
  return (
    <div class="state error" role="alert">
      <div class="glyph">
        <Icon name={offline ? 'cloud' : 'alert'} size={20} />
      </div>
      <h2>{title}</h2>
      <p>{offline ? 'It may be restarting. What was loaded before stays on the page.' : error.message}</p>
      {api !== null && api.requestId !== null && <p class="small mono">request {api.requestId}</p>}
      {retry !== undefined && (
        <button type="button" class="button" onClick={retry}>
          <Icon name="again" /> Try again
        </button>
      )}
    </div>
  );
}

export function NotAvailable({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <Empty icon="dash" title={title}>
      <p>{children ?? 'This server does not offer it. A newer version of Callboard does.'}</p>
    </Empty>
  );
}

/** What went wrong with something the reader just did. */
export function Problem({ error }: { error: Error | null }) {
  if (error === null) return null;
  const errors = error instanceof ApiError ? error.errors : [];
  return (
    <div class="problem" role="alert">
      <span>{error.message}</span>
      {errors.length > 0 && errors[0] !== error.message && (
        <ul>
          {errors.map((each) => (
            <li key={each}>{each}</li>
          ))}
        </ul>
      )}
    </div>
  );
}
