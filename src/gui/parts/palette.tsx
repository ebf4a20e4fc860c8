/** Ctrl-K: pages, playbooks, and executions by number. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { get } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { navigate, ROOT, to } from '../core/router.ts';
import type { CatalogEntry } from '../core/wire.ts';

interface Choice {
  readonly name: string;
  readonly kind: string;
  readonly href: string;
}

const PAGES: readonly Choice[] = [
  ['Overview', ''],
  ['Executions', 'executions'],
  ['Failed executions', 'executions?status=failed'],
  ['Running executions', 'executions?status=running'],
  ['Playbooks', 'playbooks'],
  ['Editor: new playbook', 'editor'],
  ['Schedules', 'schedules'],
  ['Machines', 'machines'],
  ['Workers and commands', 'commands'],
  ['Batches', 'batches'],
  ['Credentials', 'credentials'],
  ['Keychain', 'keychain'],
  ['Recovery', 'recovery'],
].map(([name = '', path = '']) => ({ name, kind: 'page', href: `${ROOT}/${path}` }));
const SHOWN = 12;

export function Palette({ onClose }: { onClose: () => void }) {
  const element = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  /** Enter came before the playbooks did. */
  const [isAwaited, setAwaited] = useState(false);
  const playbooks = useResource('palette', (signal) =>
    get<readonly CatalogEntry[]>('/api/catalog/playbooks', {}, signal),
  );
  useLayoutEffect(() => element.current?.showModal(), []);

  const words = text.trim().toLowerCase();
  const all: readonly Choice[] = [
    ...(/^\d+$/.test(words) ? [{ name: `Execution ${words}`, kind: 'execution', href: to.execution(words) }] : []),
    ...PAGES,
    ...(playbooks.data ?? []).map((each) => ({ name: each.path, kind: 'playbook', href: to.playbook(each.path) })),
  ];
  const found = all.filter((each) => each.name.toLowerCase().includes(words)).slice(0, SHOWN);
  const chosen = Math.min(at, found.length - 1);
  const go = (choice: Choice | undefined): void => {
    if (choice === undefined) return;
    element.current?.close();
    navigate(choice.href);
  };
  useEffect(() => {
    if (isAwaited && playbooks.data !== null) go(found[chosen]);
  }, [isAwaited, playbooks.data]);
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, found.length - 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(chosen - 1, 0));
    else if (event.key === 'Enter' && found.length === 0) setAwaited(playbooks.loading);
    else if (event.key === 'Enter') go(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={element} class="palette" aria-label="Go to" onClose={onClose}>
      <input
        role="combobox"
        aria-label="Go to a page, playbook or execution number"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length === 0 ? undefined : `palette-${chosen}`}
        placeholder="Page, playbook or execution number"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
          setAwaited(false);
        }}
        onKeyDown={onKey}
      />
      <div id="palette-list" class="options" role="listbox" aria-label="Found">
        {found.map((each, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the combobox
          // biome-ignore lint/a11y/useFocusableInteractive: the combobox keeps the focus
          <div
            key={each.href}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === chosen}
            onClick={() => go(each)}
          >
            <span class="break">{each.name}</span>
            <span class="soft small">{each.kind}</span>
          </div>
        ))}
      </div>
    </dialog>
  );
}
