/** A button that copies a text and says that it did. */
import { useState } from 'preact/hooks';
import { Icon } from './icons.tsx';

export function Copy({ text, what }: { text: string; what: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button
      type="button"
      class="button quiet tiny copy"
      aria-label={`Copy ${what}`}
      title={`Copy ${what}`}
      onClick={() => void copy()}
    >
      <Icon name={copied ? 'check' : 'copy'} size={14} />
      {copied && <span>Copied</span>}
    </button>
  );
}
