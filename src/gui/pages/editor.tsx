/** Writing a playbook: text with the server's own diagnostics, its graph beside it, and from there to running it. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, get, post } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { navigate, query, to } from '../core/router.ts';
import type { CatalogEntry, Diagnostic, StepGraph, Validation } from '../core/wire.ts';
import { CodeEditor, type Jump } from '../editor/code-editor.tsx';
import { keepDraft, readDraft } from '../editor/draft.ts';
import { Simulation } from '../editor/simulation.tsx';
import { STARTER } from '../editor/starter.ts';
import { GraphView } from '../graph/graph-view.tsx';
import { textGraph } from '../graph/source.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { Card, PageHead } from '../parts/page.tsx';
import { Empty, Failed, Loading, Problem } from '../parts/states.tsx';
import { say } from '../parts/toasts.tsx';
import { lineDiff } from '../playbook/line-diff.ts';
import { DiffView } from '../playbook/versions.tsx';

const CHECK_MS = 350;
const FILE_MAX = 1024 * 1024;

export function EditorPage() {
  const path = query.value.get('path');
  const stored = useResource(`edit ${path}`, async (signal) =>
    path === null ? '' : ((await post<CatalogEntry>('/api/catalog/resource', { path }, signal)).content ?? ''),
  );
  if (stored.error !== null) {
    return (
      <>
        <PageHead title={path ?? 'New playbook'} crumbs={<a href={to.playbooks}>Playbooks</a>} />
        <Failed error={stored.error} retry={stored.reload} />
      </>
    );
  }
  if (stored.data === null) return <Loading what="the playbook" />;
  return <Editor key={path} path={path} stored={stored.data} />;
}

interface Checked {
  readonly validation: Validation | null;
  readonly graph: StepGraph | null;
}

const NOTHING: readonly Diagnostic[] = [];

function Editor({ path, stored }: { path: string | null; stored: string }) {
  const beginning = path === null ? STARTER : stored;
  const [draft] = useState(() => readDraft(path));
  const [text, setText] = useState(draft ?? beginning);
  const [checked, setChecked] = useState<Checked>({ validation: null, graph: null });
  const [trouble, setTrouble] = useState<Error | null>(null);
  const [attempt, setAttempt] = useState(0);
  const [jump, setJump] = useState<Jump | null>(null);
  const [open, setOpen] = useState<'register' | 'simulate' | null>(null);
  const [canSimulate, setCanSimulate] = useState(false);
  const changed = text !== stored;

  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      check(text, stop.signal).then(
        (found) => {
          if (stop.signal.aborted) return;
          setChecked((before) => ({ ...found, graph: found.graph ?? before.graph }));
          setTrouble(null);
        },
        (caught: unknown) => {
          if (stop.signal.aborted) return;
          // What was said of an earlier text must not stand for this one.
          setChecked((before) => ({ ...before, validation: null }));
          setTrouble(caught instanceof Error ? caught : new Error(String(caught)));
        },
      );
    }, CHECK_MS);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [text, attempt]);
  useEffect(() => keepDraft(path, text === beginning ? null : text), [text, beginning]);
  useEffect(() => {
    void offersSimulation().then(setCanSimulate);
  }, []);
  useEffect(() => {
    if (!changed || path === null) return;
    const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener('beforeunload', ask);
    return () => removeEventListener('beforeunload', ask);
  }, [changed]);

  const { validation, graph } = checked;
  return (
    <>
      <PageHead
        title={path === null ? 'New playbook' : path}
        crumbs={
          path === null ? <a href={to.playbooks}>Playbooks</a> : <a href={to.playbook(path)}>Back to the playbook</a>
        }
        lead={
          path === null
            ? 'This small one works. Change it, register it, run it.'
            : 'Registering stores a new version; earlier ones stay as they are.'
        }
      >
        {path === null && <OpenFile onText={setText} />}
        {canSimulate && (
          <button
            type="button"
            class="button"
            disabled={validation?.valid !== true}
            onClick={() => setOpen('simulate')}
          >
            <Icon name="play" size={14} /> Simulate
          </button>
        )}
        <button
          type="button"
          class="button primary"
          disabled={validation?.valid !== true || !changed}
          onClick={() => setOpen('register')}
        >
          Register…
        </button>
      </PageHead>
      {draft !== null && text === draft && (
        <p class="notice row between">
          <span>This is what you wrote before; it is not registered.</span>
          <button type="button" class="button tiny" onClick={() => setText(beginning)}>
            Discard it
          </button>
        </p>
      )}
      <div class="editor-grid">
        <div class="stack">
          <section class="card clip" aria-label="Text">
            <CodeEditor text={text} diagnostics={validation?.diagnostics ?? NOTHING} jump={jump} onText={setText} />
          </section>
          <Card title="Problems" flush>
            {trouble === null ? (
              <Diagnostics validation={validation} onJump={setJump} />
            ) : (
              <Failed error={trouble} retry={() => setAttempt(attempt + 1)} />
            )}
          </Card>
        </div>
        {graph === null ? (
          <section class="card" aria-label="Graph">
            <Empty icon="chart" title="No drawing yet">
              <p>The graph appears as soon as the text can be read.</p>
            </Empty>
          </section>
        ) : (
          <GraphView
            graph={graph}
            chosen={null}
            onChoose={(id) => {
              const line = id === null ? -1 : lineOf(text, id);
              if (line > 0) setJump({ line, column: 1 });
            }}
          />
        )}
      </div>
      {open === 'register' && <Register path={path} text={text} stored={stored} onClose={() => setOpen(null)} />}
      {open === 'simulate' && (
        <Simulation content={text} steps={graph?.nodes.map((each) => each.step) ?? []} onClose={() => setOpen(null)} />
      )}
    </>
  );
}

/** A playbook that lies on this machine comes into the editor; nothing is sent before it is registered. */
function OpenFile({ onText }: { onText: (text: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [error, setError] = useState<Error | null>(null);
  const read = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return;
    const tooLarge = file.size > FILE_MAX;
    setError(tooLarge ? new Error(`${file.name} is larger than a playbook may be (1 MiB)`) : null);
    if (!tooLarge) onText(await file.text());
  };
  return (
    <>
      <Problem error={error} />
      <input
        ref={input}
        type="file"
        accept=".yaml,.yml,text/yaml"
        aria-label="Playbook file"
        hidden
        onChange={(event) => {
          void read(event.currentTarget.files?.[0]);
          event.currentTarget.value = '';
        }}
      />
      <button type="button" class="button" onClick={() => input.current?.click()}>
        Open a file…
      </button>
    </>
  );
}

async function check(content: string, signal: AbortSignal): Promise<Checked> {
  const [validation, graph] = await Promise.all([
    post<Validation>('/api/catalog/playbooks/validate', { content }, signal),
    textGraph(content, signal).catch(() => null),
  ]);
  return { validation, graph };
}

/** An empty request is refused by a server that knows simulations, and unknown to one that does not. */
async function offersSimulation(): Promise<boolean> {
  try {
    const { paths } = await get<{ readonly paths: Readonly<Record<string, unknown>> }>('/openapi.json');
    return Object.hasOwn(paths, '/api/catalog/playbooks/simulate');
  } catch (error) {
    if (error instanceof ApiError) return false;
    throw error;
  }
}

function lineOf(text: string, step: string): number {
  return (
    text.split('\n').findIndex((line) => {
      const name = /^\s*-\s+step:\s*["']?([\w.-]+)/.exec(line)?.[1];
      return name === step;
    }) + 1
  );
}

function Diagnostics({ validation, onJump }: { validation: Validation | null; onJump: (jump: Jump) => void }) {
  if (validation === null) return <Loading what="the check" />;
  if (validation.diagnostics.length === 0) {
    return (
      <p class="pad row" role="status">
        <Icon name="check" />
        <span>
          No problems. It would be stored as <code>{validation.path}</code>.
        </span>
      </p>
    );
  }
  return (
    <ul class="diagnostics">
      {validation.diagnostics.map((each, index) => (
        <li key={`${index} ${each.code}`}>
          <button
            type="button"
            class={each.severity === 'error' ? 'tone-failed' : 'tone-cancelled'}
            onClick={() => onJump({ line: each.line ?? 1, column: each.column ?? 1 })}
          >
            <Icon name={each.severity === 'error' ? 'cross' : 'alert'} />
            <span>
              <span class="visually-hidden">{each.severity}: </span>
              {each.message.replace(/ \(line \d+\)$/, '')}
            </span>
            <span class="soft small">line {each.line ?? '–'}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

function Register({
  path,
  text,
  stored,
  onClose,
}: {
  path: string | null;
  text: string;
  stored: string;
  onClose: () => void;
}) {
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const register = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const done = await post<{ path: string; version: number; message: string }>('/api/catalog/register', {
        content: text,
      });
      say(done.message);
      keepDraft(path, null);
      onClose();
      navigate(to.playbook(done.path));
    } catch (caught) {
      setError(caught instanceof Error ? caught : new Error(String(caught)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={path === null ? 'Register this playbook?' : 'Register a new version?'} onClose={onClose}>
      {path === null ? (
        <p>It is stored in the catalog and can be run at once.</p>
      ) : (
        <DiffView lines={lineDiff(stored, text)} />
      )}
      <Problem error={error} />
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="button primary" disabled={busy} onClick={() => void register()}>
          Register
        </button>
      </div>
    </Dialog>
  );
}
