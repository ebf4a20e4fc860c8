/**
 * The chart of an execution against a model of a page's length, over every sequence of a small alphabet: what becomes of one
 * command, said in any order and any number of times (language 14.2, 14.3).
 */
import { expect, test } from 'vitest';
import type { EventDraft } from '../../machines/events.ts';
import { playbookOf, step } from '../support/playbooks.ts';
import { Story } from '../support/story.ts';

const ALPHABET = [
  'done',
  'error',
  'completed',
  'failed',
  'park',
  'stale',
  'foreign',
  'crash',
  'finish',
  'cancel',
] as const;
type Letter = (typeof ALPHABET)[number];
const LENGTH = 4;
const PLAYBOOK = playbookOf([step('a')]);

interface Model {
  readonly state: 'running.working' | 'completed' | 'failed' | 'cancelled';
  readonly outcome: 'done' | 'error' | null;
  readonly isParked: boolean;
}

const BEGIN: Model = { state: 'running.working', outcome: null, isParked: false };

function follow(model: Model, letter: Letter): Model {
  if (model.state !== 'running.working') return model;
  const ends = (outcome: 'done' | 'error'): Model => ({
    ...model,
    state: (model.outcome ?? outcome) === 'done' ? 'completed' : 'failed',
  });
  switch (letter) {
    case 'done':
    case 'error':
      return model.isParked ? ends(letter) : { ...model, outcome: model.outcome ?? letter };
    case 'completed':
      return ends('done');
    case 'failed':
      return ends('error');
    case 'park':
      return { ...model, isParked: true };
    case 'finish':
      return { ...model, state: 'completed' };
    case 'cancel':
      return { ...model, state: 'cancelled' };
    default:
      return model;
  }
}

function apply(story: Story, letter: Letter): void {
  const commandId = story.issued[0]?.commandId ?? 0;
  const row = (type: string, more: Partial<EventDraft> = {}): EventDraft => ({
    ...{ type, status: 'completed', nodeName: 'a', commandId },
    ...more,
  });
  switch (letter) {
    case 'done':
      story.tell(row('call.done'));
      break;
    case 'error':
      story.tell(row('call.error', { status: 'failed', error: 'broke' }));
      break;
    case 'completed':
      story.tell(row('command.completed'));
      break;
    case 'failed':
      story.tell(row('command.failed', { status: 'failed' }));
      break;
    case 'park':
      story.tell(row('command.completed', { context: { pending_callback: true, child_execution_id: 7 } }));
      break;
    case 'stale':
      story.tell(row('call.error', { stale: true })).tell(row('command.failed', { stale: true }));
      break;
    case 'foreign':
      story.tell(row('call.done', { commandId: 5 })).tell(row('command.completed', { commandId: 5 }));
      break;
    case 'crash':
      story.restart();
      break;
    case 'finish':
      story.tell(row('playbook.completed', { commandId: null }));
      break;
    case 'cancel':
      story.cancel();
      break;
  }
}

function* words(length: number): Generator<readonly Letter[]> {
  if (length === 0) {
    yield [];
    return;
  }
  for (const word of words(length - 1)) for (const letter of ALPHABET) yield [...word, letter];
}

test(`EV-10 the chart agrees with its model on every word of ${LENGTH} letters`, () => {
  let count = 0;
  for (const word of words(LENGTH)) {
    const story = new Story(PLAYBOOK);
    // The log is folded anew at the end of the word, which is enough here.
    story.isChecked = false;
    story.start();
    let model = BEGIN;
    for (const letter of word) {
      apply(story, letter);
      model = follow(model, letter);
      if (story.value !== model.state)
        expect.fail(`${word.join(' ')}: ${story.value}, and the model says ${model.state}`);
    }
    story.restart();
    if (story.value !== model.state) expect.fail(`${word.join(' ')}: the log folds to ${story.value}`);
    const open = story.run.open[story.issued[0]?.commandId ?? 0];
    if (model.state === 'running.working') {
      expect([open?.parkedOn !== null, open?.failed]).toEqual([model.isParked, model.outcome === 'error']);
    }
    count += 1;
  }
  expect(count).toBe(ALPHABET.length ** LENGTH);
});
