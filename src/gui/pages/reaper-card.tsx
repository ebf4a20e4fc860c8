/** The sweep for forgotten commands: when it looked last and what it found, when it looks next, and a nudge. */
import { useState } from 'preact/hooks';
import { ApiError, get, orNull, post } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { Icon } from '../parts/icons.tsx';
import { When } from '../parts/instant.tsx';
import { Card } from '../parts/page.tsx';
import { Problem } from '../parts/states.tsx';

const EVERY_MS = 10_000;

interface Sweep {
  readonly swept_at: string;
  readonly republished: number;
  readonly orphaned_active: number;
  readonly stranded_pending: number;
  readonly errors: number;
}

interface Reaper {
  readonly enabled: boolean;
  readonly settings: { readonly interval_seconds: number };
  readonly sweeps: readonly Sweep[];
  readonly next_due_at: string | null;
  readonly lease: { readonly holder: string | null } | null;
}

interface SweepAnswer extends Partial<Sweep> {
  readonly status: string;
  readonly lease?: { readonly holder: string | null };
}

export function ReaperCard() {
  const [answer, setAnswer] = useState<SweepAnswer | null | 'missing'>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const reaper = useResource(
    'reaper',
    (signal) => orNull(get<Reaper>('/api/admin/command_reaper', {}, signal)),
    (_, failed) => (failed === null ? EVERY_MS : null),
  );
  const sweep = async (): Promise<void> => {
    setError(null);
    setBusy(true);
    try {
      setAnswer((await orNull(post<SweepAnswer>('/api/admin/command_reaper/sweep'))) ?? 'missing');
      reaper.reload();
    } catch (caught) {
      setError(caught instanceof Error ? caught : new Error(String(caught)));
    }
    setBusy(false);
  };
  return (
    <Card
      title="Forgotten commands"
      actions={
        <button type="button" class="button tiny" disabled={busy} onClick={() => void sweep()}>
          <Icon name="recover" size={13} /> Look now
        </button>
      }
    >
      <div class="stack">
        <p class="soft">
          A command that nobody took, or whose worker fell silent, is announced again. The server looks for them by
          itself; looking now harms nothing.
        </p>
        {reaper.data !== null && <State reaper={reaper.data} />}
        {reaper.error !== null && reaper.data === null && <p class="soft">{whyHidden(reaper.error)}</p>}
        <Problem error={error} />
        {answer === 'missing' && <p class="warn">This server has no such sweep.</p>}
        {answer !== null && answer !== 'missing' && <p role="status">{sentenceOf(answer)}</p>}
      </div>
    </Card>
  );
}

function State({ reaper }: { reaper: Reaper }) {
  const last = reaper.sweeps[0];
  return (
    <dl class="facts">
      <dt>Last look</dt>
      <dd>
        {last === undefined ? (
          'none yet'
        ) : (
          <>
            <When at={last.swept_at} />: {foundText(last)}
          </>
        )}
      </dd>
      <dt>Next look</dt>
      <dd>
        {reaper.enabled ? (
          <>
            <When at={reaper.next_due_at} />, every {reaper.settings.interval_seconds} s
          </>
        ) : (
          'switched off; only by hand'
        )}
      </dd>
      {reaper.lease?.holder != null && (
        <>
          <dt>Done by</dt>
          <dd class="break">{reaper.lease.holder}</dd>
        </>
      )}
      {reaper.sweeps.length > 1 && (
        <>
          <dt>Last {reaper.sweeps.length} looks</dt>
          <dd>
            {reaper.sweeps.reduce((sum, each) => sum + each.republished, 0)} announced again,{' '}
            {reaper.sweeps.reduce((sum, each) => sum + each.errors, 0)} errors
          </dd>
        </>
      )}
    </dl>
  );
}

function foundText({ republished, orphaned_active, stranded_pending }: Sweep): string {
  if (republished === 0) return 'nothing was forgotten';
  return `${republished} announced again (${orphaned_active} of silent workers, ${stranded_pending} that nobody took)`;
}

function sentenceOf(answer: SweepAnswer): string {
  if (answer.status === 'accepted')
    return `Another process (${answer.lease?.holder ?? 'unknown'}) looks after this and was asked to.`;
  const { republished = 0, orphaned_active = 0, stranded_pending = 0 } = answer;
  const found = foundText({ republished, orphaned_active, stranded_pending, swept_at: '', errors: 0 });
  return `Looked just now: ${found}.`;
}

function whyHidden(error: Error): string {
  const refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
  return refused ? `When it looked last is for administrators: ${error.message}` : error.message;
}
