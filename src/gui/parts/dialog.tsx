/** The browser's own dialog: it keeps the focus inside, closes on Escape and gives the focus back. */
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Problem } from './states.tsx';

export function Dialog({
  title,
  wide = false,
  onClose,
  children,
}: {
  title: string;
  wide?: boolean;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the next key can be pressed: what is typed at once belongs into the dialog.
  useLayoutEffect(() => {
    const dialog = element.current;
    if (dialog !== null && !dialog.open) dialog.showModal();
  }, []);
  return (
    <dialog ref={element} class={wide ? 'wide' : undefined} aria-labelledby={id} onClose={onClose}>
      <div class="sheet">
        <h2 class="sheet-title" id={id}>
          {title}
        </h2>
        {children}
      </div>
    </dialog>
  );
}

/**
 * Asks before something is done that cannot be undone: `children` show what it will do. With `word`, that word has to be
 * typed first.
 */
export function Confirm({
  title,
  act,
  word,
  disabled = false,
  onAct,
  onClose,
  children,
}: {
  title: string;
  act: string;
  word?: string;
  disabled?: boolean;
  onAct: () => Promise<void>;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const [typed, setTyped] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const id = useId();
  const go = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await onAct();
      onClose();
    } catch (caught) {
      setError(caught instanceof Error ? caught : new Error(String(caught)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {word !== undefined && (
        <div class="field">
          <label for={id}>
            Type <code>{word}</code> to go on
          </label>
          <input id={id} autocomplete="off" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        </div>
      )}
      <Problem error={error} />
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          Keep as it is
        </button>
        <button
          type="button"
          class="button danger primary"
          disabled={disabled || busy || (word !== undefined && typed !== word)}
          onClick={() => void go()}
        >
          {act}
        </button>
      </div>
    </Dialog>
  );
}
