/** A status as a word, an icon and a colour: any one of them is enough. */
import { Icon, type IconName } from './icons.tsx';

export type Tone = 'running' | 'completed' | 'failed' | 'cancelled' | 'pending';

const TONES: Readonly<Record<string, Tone>> = {
  running: 'running',
  started: 'running',
  claimed: 'running',
  processing: 'running',
  completed: 'completed',
  ready: 'completed',
  ok: 'completed',
  done: 'completed',
  success: 'completed',
  failed: 'failed',
  error: 'failed',
  expired: 'failed',
  cancelled: 'cancelled',
  offline: 'failed',
  draining: 'cancelled',
  stale: 'cancelled',
  warning: 'cancelled',
};

const ICONS: Readonly<Record<Tone, IconName>> = {
  running: 'turning',
  completed: 'check',
  failed: 'cross',
  cancelled: 'minus',
  pending: 'circle',
};

export function toneOf(status: string): Tone {
  return TONES[status.toLowerCase()] ?? 'pending';
}

export function toneIcon(status: string): IconName {
  return status.toLowerCase() === 'skipped' ? 'dash' : ICONS[toneOf(status)];
}

export function StatusBadge({ status }: { status: string }) {
  const tone = toneOf(status);
  return (
    <span class={`badge tone-${tone}`}>
      <Icon name={toneIcon(status)} size={13} spin={tone === 'running'} />
      {status.toLowerCase()}
    </span>
  );
}
