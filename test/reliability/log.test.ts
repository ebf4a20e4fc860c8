/** Area A of the catalogue of checks, without a database: logs of earlier versions, and events that do not fit the state. */
import { describe, expect, test } from 'vitest';
import type { EventDraft, LogEvent } from '../../machines/events.ts';
import { absorbEvent, completeDraft, runOf } from '../../machines/execution/take-turn.ts';
import { step } from '../support/playbooks.ts';
import { given, type Story } from '../support/story.ts';
import { foldOf, readGoldenLogs } from './golden-logs.ts';

describe('EV-09 recorded logs', () => {
  const logs = readGoldenLogs();

  test('EV-09 thirty logs of earlier builds fold to what they folded to then', () => {
    expect(logs).toHaveLength(30);
    for (const [index, { events, value, run }] of logs.entries())
      expect(foldOf(events), `log ${index}`).toEqual({ value, run });
  });

  test('EV-09 event types nobody knows are passed over, wherever they stand', () => {
    for (const { events, value, run } of logs.filter((log) => log.events.length > 5)) {
      const at = Math.floor(events.length / 2);
      const stranger = { ...events[at], type: 'billing.metered', commandId: null, closes: false, meta: {} } as LogEvent;
      expect(foldOf([...events.slice(0, at), stranger, ...events.slice(at)])).toEqual({ value, run });
    }
  });
});

describe('EV-10 events that do not fit', () => {
  const STEPS = [
    step('a', { next: { spec: { mode: 'inclusive' }, arcs: [{ step: 'b' }, { step: 'c' }] } }),
    step('b'),
    step('c'),
  ];
  const failing = (): Story => given(STEPS).start().ok('a').claim('b', 'c').fail('b');
  /** Every state of the chart, brought about by a story. */
  const STATES: Readonly<Record<string, () => Story>> = {
    created: () => given(STEPS),
    'running.working': () => given(STEPS).start(),
    'running.failing': failing,
    completed: () => given(STEPS).start().ok('a').ok('b').ok('c'),
    failed: () => failing().ok('c'),
    cancelled: () => given(STEPS).start().cancel(),
  };
  /** What moves a run that is under way whatever it is about; by hand, from the table of language 14.2. */
  const MOVES = [
    'step.enter',
    'step.skipped',
    'command.issued',
    'playbook.completed',
    'playbook.failed',
    'execution.cancelled',
  ];
  const OF_COMMANDS = [
    'call.done',
    'call.error',
    'command.completed',
    'command.failed',
    'command.cancelled',
    'command.claimed',
    'command.started',
    'command.heartbeat',
  ];
  const OTHERS = [
    'execution.started',
    'step.exit',
    'loop.done',
    'loop.stalled',
    'ctx.updated',
    'workflow.completed',
    'workflow.failed',
    'batch.accepted',
    'batch.processing',
    'batch.completed',
    'batch.failed',
    'late.outcome',
    'outcome.reported',
    'report.note',
    'constructor',
    '__proto__',
    '',
  ];
  const isUnderWay = (state: string) => state.startsWith('running');

  function tell(story: Story, type: string, more: Partial<EventDraft> = {}): void {
    const eventId = story.log.length + 1;
    const draft: EventDraft = { type, status: 'completed', nodeName: 'nowhere', ...more };
    absorbEvent(story.state, completeDraft(draft, eventId, eventId, story.at));
  }

  const seen = (story: Story): string => JSON.stringify([story.state.snapshot.value, runOf(story.state)]);

  test.each(Object.keys(STATES))('EV-10 leave a run that is %s as it is, and throw nothing', (name) => {
    const make = STATES[name];
    if (make === undefined) throw new Error(`no story for ${name}`);
    const illegal = [
      ...OTHERS.filter((type) => type !== 'execution.started' || name !== 'created'),
      ...OF_COMMANDS,
      ...(isUnderWay(name) ? [] : MOVES),
    ];
    for (const type of illegal) {
      const story = make();
      const before = seen(story);
      // Of a command nobody issued, of an attempt that was outrun, and of nothing at all.
      tell(story, type, { commandId: 5 });
      tell(story, type, { commandId: story.issued[0]?.commandId ?? 6, stale: true });
      tell(story, type);
      expect(seen(story), `${type} while ${name}`).toBe(before);
    }
  });

  test('EV-10 two events in either order end in one of the states the chart has', () => {
    for (const first of [...OF_COMMANDS, ...MOVES.slice(3)])
      for (const second of [...OF_COMMANDS, ...MOVES.slice(3)]) {
        const story = given(STEPS).start();
        const { commandId } = story.command('a');
        for (const type of [first, second]) tell(story, type, { commandId, nodeName: 'a' });
        const value = JSON.stringify(story.state.snapshot.value);
        expect(['{"running":"working"}', '"completed"', '"failed"', '"cancelled"'], `${first}, ${second}`).toContain(
          value,
        );
        const ends = [first, second].find((type) => MOVES.includes(type));
        if (ends !== undefined) expect(value).toBe(`"${ends.split('.')[1]}"`);
      }
  });
});
