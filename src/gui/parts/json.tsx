/** A JSON value to read and to copy. Long texts are shown in part until asked for: a page must not freeze on one. */
import { useState } from 'preact/hooks';
import { pretty } from '../core/api.ts';
import type { Json } from '../core/wire.ts';
import { Copy } from './copy.tsx';
import { ScrollRegion } from './scroll-region.tsx';

const SHOWN_CHARS = 20_000;
/** More than this is shown without colours: a span for each word would take longer than reading it. */
const COLOURED_CHARS = 200_000;
/** Texts of several lines, such as code and traces, are shown as lines; what is copied is JSON. */
const LINES = /(?<!\\)(?:\\\\)*\\n/;
const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

export function JsonView({ value, label }: { value: Json | undefined; label: string }) {
  const [all, setAll] = useState(false);
  const text = pretty(value);
  const shown = all ? text : text.slice(0, SHOWN_CHARS);
  return (
    <div class="json">
      <Copy text={text} what={label} />
      <ScrollRegion class="json-text" label={label}>
        <pre>{shown.length > COLOURED_CHARS ? shown : coloured(shown)}</pre>
      </ScrollRegion>
      {shown.length < text.length && (
        <button type="button" class="button quiet tiny" onClick={() => setAll(true)}>
          Show all {Math.ceil(text.length / 1000)} KB
        </button>
      )}
    </div>
  );
}

function linesOf(string: string) {
  try {
    const text: unknown = JSON.parse(string);
    return <span class="json-string json-lines">{String(text).replace(/\n$/, '')}</span>;
  } catch {
    // The end of a text that is shown in part.
    return <span class="json-string">{string}</span>;
  }
}

function coloured(text: string) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKENS)) {
    const [whole, string, colon, word] = match;
    if (match.index > at) parts.push(text.slice(at, match.index));
    if (string !== undefined) {
      if (colon === undefined && LINES.test(string)) parts.push(linesOf(string));
      else parts.push(<span class={colon === undefined ? 'json-string' : 'json-key'}>{string}</span>, colon ?? '');
    } else {
      parts.push(<span class={word === undefined ? 'json-number' : 'json-word'}>{whole}</span>);
    }
    at = match.index + whole.length;
    // The lines of a text end with a line of their own already, where a comma would stand alone.
    if (string !== undefined && colon === undefined && LINES.test(string))
      at += /^,?\n?/.exec(text.slice(at, at + 2))?.[0].length ?? 0;
  }
  parts.push(text.slice(at));
  return parts;
}
