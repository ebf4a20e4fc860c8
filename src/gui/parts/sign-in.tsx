/** Asked of a reader whom the server does not know: a token, tried before it is kept. The address stays as it is. */
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { BASE } from '../core/api.ts';
import { signIn } from '../core/sign-in.ts';
import { Icon } from './icons.tsx';

export function SignIn({ reason }: { reason: 'missing' | 'refused' }) {
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => {
    document.title = 'Sign in · Callboard';
    field.current?.focus();
  }, []);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const given = field.current?.value.trim() ?? '';
    if (given === '') return;
    setBusy(true);
    setProblem(await signIn(BASE, given));
    setBusy(false);
    field.current?.select();
  };
  return (
    <form class="state sign-in" aria-labelledby={`${id}-title`} onSubmit={(event) => void submit(event)}>
      <div class="glyph">
        <Icon name="key" size={20} />
      </div>
      <h1 id={`${id}-title`}>{reason === 'missing' ? 'Sign in' : 'Sign in again'}</h1>
      <p>
        {reason === 'missing'
          ? 'This server wants to know who you are. An administrator gives out tokens; they begin with cb_.'
          : 'The server no longer accepts the token of this tab: it has ended or was revoked.'}
      </p>
      <div class="field">
        <label for={id}>Token</label>
        <input
          id={id}
          ref={field}
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          aria-describedby={`${id}-hint`}
          aria-invalid={problem !== null}
        />
        <span class="hint" id={`${id}-hint`}>
          Kept until this tab is closed, and sent to this server only.
        </span>
      </div>
      {problem !== null && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <button type="submit" class="button primary" disabled={busy}>
        Sign in
      </button>
    </form>
  );
}
