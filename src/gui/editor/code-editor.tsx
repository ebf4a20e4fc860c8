/**
 * CodeMirror for playbooks. It lives in a shadow root: there its styles are adopted style sheets, so the page can forbid
 * inline styles. Diagnostics come from outside, at the positions that the server names.
 */
import {
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  completionKeymap,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import {
  bracketMatching,
  codeFolding,
  foldGutter,
  foldKeymap,
  HighlightStyle,
  indentUnit,
  syntaxHighlighting,
} from '@codemirror/language';
import { lintGutter, lintKeymap, type Diagnostic as Mark, setDiagnostics } from '@codemirror/lint';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { EditorState, type Text } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  hoverTooltip,
  keymap,
  lineNumbers,
  type Tooltip,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useRef } from 'preact/hooks';
import type { Diagnostic } from '../core/wire.ts';
import { keysAt, meaningOf, valuesAt, type Word } from './vocabulary.ts';
import { keyAt, placeAt, stepNames } from './yaml-place.ts';

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--completed)' },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: 'var(--running)' },
  { tag: [tags.comment, tags.lineComment], color: 'var(--soft)', fontStyle: 'italic' },
  { tag: [tags.punctuation, tags.separator, tags.meta], color: 'var(--soft)' },
]);

const THEME = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--surface)', color: 'var(--text)', fontSize: '13px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--text)' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--sunken)', color: 'var(--soft)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': {
    backgroundColor: 'color-mix(in srgb, var(--accent-soft) 45%, transparent)',
  },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 28%, transparent)',
  },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    color: 'var(--text)',
    border: '1px solid var(--line-strong)',
    borderRadius: '8px',
    overflow: 'hidden',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-completionDetail': { color: 'inherit', opacity: '0.8', fontStyle: 'normal' },
  '.cm-explanation': { padding: '6px 10px', maxWidth: '46ch', fontFamily: 'system-ui, sans-serif', lineHeight: '1.45' },
  '.cm-completionInfo': { padding: '6px 10px', maxWidth: '40ch', fontFamily: 'system-ui, sans-serif' },
  '.cm-panels': { backgroundColor: 'var(--sunken)', color: 'var(--text)' },
  '.cm-panels button, .cm-panels input': {
    backgroundColor: 'var(--surface)',
    backgroundImage: 'none',
    color: 'var(--text)',
  },
  '.cm-foldPlaceholder': { backgroundColor: 'var(--pending-soft)', color: 'var(--text)', border: 'none' },
});

export interface Jump {
  readonly line: number;
  readonly column: number;
}

export function CodeEditor({
  text,
  diagnostics,
  jump,
  onText,
}: {
  /** Another text replaces what is in the editor; the one it reported itself does not. */
  text: string;
  diagnostics: readonly Diagnostic[];
  /** A place to show; a new object shows it again. */
  jump: Jump | null;
  onText: (text: string) => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const report = useRef(onText);
  report.current = onText;

  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' });
    const editor = new EditorView({
      parent: root,
      root,
      state: EditorState.create({ doc: text, extensions: extensions((changed) => report.current(changed)) }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, []);
  useEffect(() => {
    const editor = view.current;
    if (editor === null || editor.state.doc.toString() === text) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
  }, [text]);
  useEffect(() => {
    const editor = view.current;
    if (editor !== null) editor.dispatch(setDiagnostics(editor.state, marksOf(diagnostics, editor.state.doc)));
  }, [diagnostics]);
  useEffect(() => {
    const editor = view.current;
    if (editor === null || jump === null) return;
    const at = positionOf(editor.state.doc, jump.line, jump.column);
    editor.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) });
    editor.focus();
  }, [jump]);

  return <div class="editor-host" ref={host} />;
}

function extensions(changed: (text: string) => void) {
  return [
    lineNumbers(),
    foldGutter(),
    codeFolding(),
    history(),
    drawSelection(),
    bracketMatching(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    lintGutter(),
    indentUnit.of('  '),
    yaml(),
    syntaxHighlighting(COLOURS),
    THEME,
    autocompletion({ override: [complete], icons: false }),
    hoverTooltip(explain, { hoverTime: 250 }),
    keymap.of([
      ...defaultKeymap,
      ...historyKeymap,
      ...completionKeymap,
      ...searchKeymap,
      ...foldKeymap,
      ...lintKeymap,
      indentWithTab,
    ]),
    // The editor lets go of Tab after Escape, which is how one leaves it by keyboard.
    EditorView.contentAttributes.of({
      'aria-label': 'Playbook as YAML. Press Escape, then Tab, to leave the editor.',
      spellcheck: 'false',
    }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) changed(update.state.doc.toString());
    }),
  ];
}

function complete(context: CompletionContext): CompletionResult | null {
  const line = context.state.doc.lineAt(context.pos);
  const lines = context.state.doc.toString().split('\n');
  const before = line.text.slice(0, context.pos - line.from);
  const place = placeAt(lines, line.number - 1, before);
  if (place === null || (!context.explicit && place.word === '' && place.key === null)) return null;
  const words: readonly Word[] =
    place.key === null ? keysAt(place.path, place.kind) : valuesAt(place.key, place.path, stepNames(lines));
  if (words.length === 0) return null;
  return {
    from: context.pos - place.word.length,
    options: words.map(({ word, info, detail }) => ({
      label: word,
      detail,
      ...(info === '' ? {} : { info }),
      type: place.key === null ? 'property' : 'enum',
      ...(place.key === null ? { apply: `${word}: ` } : {}),
    })),
    validFor: /^[\w./-]*$/,
  };
}

/** What the key under the pointer means. The same words stand beside a completion, which is how the keyboard gets them. */
function explain(view: EditorView, position: number): Tooltip | null {
  const line = view.state.doc.lineAt(position);
  const lines = view.state.doc.toString().split('\n');
  const key = keyAt(line.text, position - line.from);
  if (key === null) return null;
  const place = placeAt(lines, line.number - 1, line.text.slice(0, key.from));
  const word = place === null ? null : meaningOf(key.key, place.path, place.kind);
  if (word === null || word.info === '') return null;
  return {
    pos: line.from + key.from,
    end: line.from + key.to,
    above: true,
    create: () => ({ dom: explanation(word) }),
  };
}

function explanation(word: Word): HTMLElement {
  const box = document.createElement('div');
  box.className = 'cm-explanation';
  const head = document.createElement('div');
  const name = document.createElement('strong');
  name.textContent = word.word;
  head.append(name);
  if (word.detail !== '') head.append(` ${word.detail}`);
  const text = document.createElement('div');
  text.textContent = word.info;
  box.append(head, text);
  return box;
}

function marksOf(diagnostics: readonly Diagnostic[], text: Text): Mark[] {
  return diagnostics.map((each) => {
    const from = positionOf(text, each.line ?? 1, each.column ?? 1);
    const to = each.end_line === null ? from : positionOf(text, each.end_line, each.end_column ?? 1);
    return { from, to: Math.max(from, to), severity: each.severity, message: each.message };
  });
}

function positionOf(text: Text, line: number, column: number): number {
  const found = text.line(Math.min(Math.max(1, line), text.lines));
  return Math.min(found.to, found.from + Math.max(0, column - 1));
}
