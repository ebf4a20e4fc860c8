/** The keys that work, told on `?`. */
import { Dialog } from './dialog.tsx';

const KEYS: readonly (readonly [string, string])[] = [
  ['Ctrl K', 'Go to a page, a playbook or an execution by its number'],
  [
    'g then o e p d s m w b c k r',
    'Overview, executions, playbooks, editor, schedules, machines, workers, batches, credentials, keychain, recovery',
  ],
  ['↑ ↓', 'Through events and lists; in a graph, along its arcs'],
  ['Enter', 'Open what is chosen'],
  ['Esc', 'Close it again'],
  ['f', 'In a graph: the next failed step'],
  ['← →', 'In time travel: one frame; with Shift the next change of state'],
  ['Home End Space', 'In time travel: first, last, play'],
  ['+ − ← → 0', 'In a timeline: nearer, farther, to the side, all of it'],
  ['?', 'This sheet'],
];

export function KeySheet({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([keys, what]) => [
          <dt key={keys}>
            <kbd>{keys}</kbd>
          </dt>,
          <dd key={what}>{what}</dd>,
        ])}
      </dl>
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
