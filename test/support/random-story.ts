/** Executions that took some random way: loops, joins, errors, variables, parked commands. The same seeds, the same way. */
import { arc, every, first, step } from './playbooks.ts';
import { given, type Story } from './story.ts';

const STEPS = [
  step('start', { ...every('left', arc('right', { when: '{{ workload.both }}' })), set: { 'ctx.seen': 1 } }),
  step('left', { ...first(arc('fix', { when: "{{ event.name == 'call.error' }}" }), 'meet'), set: { 'ctx.left': 2 } }),
  step('right', {
    loop: { in: '{{ range(5) }}', iterator: 'n', mode: 'parallel', max_in_flight: 2 },
    ...first('meet'),
  }),
  step('fix', first(arc('start', { when: '{{ workload.again }}' }), 'meet')),
  step('meet', first('last')),
  step('last'),
];

/** Each number chooses: which open command is next, and how it ends. */
export function randomStory(choices: readonly number[]): Story {
  const [shape = 0] = choices;
  const story = given(STEPS).start({ both: shape % 3 !== 0, again: false });
  story.isChecked = false;
  for (const choice of choices) {
    if (story.isEnded) break;
    story.now += 1000;
    const open = story.open[choice % Math.max(1, story.open.length)];
    if (open === undefined) break;
    const key = open.event.nodeId;
    const isParked = story.run.open[open.commandId]?.parkedOn !== null;
    const how = Math.floor(choice / 7) % 12;
    if (how === 0 && choice % 5 === 0) story.cancel();
    else if (isParked) story.unpark(key, how % 3 === 0 ? 'error' : 'ok', { n: choice });
    else if (how === 1) story.fail(key);
    else if (how === 2) story.park(key, 50_000 + choice);
    else if (how === 3) story.ok(key, choice, { ctx: { noted: choice } });
    else story.ok(key, choice);
  }
  return story;
}
