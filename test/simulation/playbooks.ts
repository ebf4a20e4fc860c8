/** Playbooks of a world: fans and joins, back edges, loops, admission, failures, waits for other playbooks. */
import type { JsonMap } from '../../machines/json.ts';
import type { Chance } from '../support/arbitraries.ts';
import { admission, step } from '../support/playbooks.ts';

const GUARDS = [
  null,
  null,
  null,
  'false',
  '(ctx.n or 0) % 2 == 0',
  '(ctx.n or 0) < 4',
  "event.name == 'call.error'",
  "event.name == 'step.done'",
  "output.status == 'error'",
  'output.data == 1',
  'error.retryable',
] as const;

/** By path. A playbook waits only for those after it, so that no tree is endless. */
export function drawPlaybooks(chance: Chance): Readonly<Record<string, readonly JsonMap[]>> {
  const count = 1 + chance.below(3);
  const playbooks: Record<string, readonly JsonMap[]> = {};
  for (let index = 0; index < count; index += 1) playbooks[`flow/${index}`] = drawSteps(chance, index, count);
  return playbooks;
}

/** A run that fails while it waits for a child, which waits for one of its own: what draws hardly ever come by. */
export function failingWaits(): Readonly<Record<string, readonly JsonMap[]>> {
  const chain = (size: number, more: JsonMap = {}) =>
    Array.from({ length: size }, (_, at) => {
      const next = at + 1 < size ? { next: { spec: {}, arcs: [{ step: `s${at + 1}` }] } } : {};
      return step(`s${at}`, { ...(at === 1 ? more : {}), ...next });
    });
  const waitsFor = (path: string): JsonMap => ({ tool: { kind: 'playbook', path, wait: true } });
  const both = { spec: { mode: 'inclusive' }, arcs: [{ step: 'wait' }, { step: 'quick' }] };
  const raises = { spec: {}, arcs: [{ step: 'never', when: '{{ workload.none + 1 > 0 }}' }] };
  return {
    'flow/0': [
      step('start', { next: both }),
      step('wait', waitsFor('flow/1')),
      step('quick', { next: { spec: {}, arcs: [{ step: 'then' }] } }),
      step('then', { next: raises }),
      step('never'),
    ],
    'flow/1': chain(8, waitsFor('flow/2')),
    'flow/2': chain(40),
  };
}

/** Many commands of one execution at the same time: what is reported while a write is under way goes out with the next. */
export function crowdedLoop(atOnce: number): Readonly<Record<string, readonly JsonMap[]>> {
  return {
    'flow/0': [
      step('start', {
        loop: { in: 20, iterator: 'item', spec: { mode: 'parallel', max_in_flight: atOnce } },
        spec: { policy: { failure: { mode: 'best_effort' } } },
        next: { spec: {}, arcs: [{ step: 'last' }] },
      }),
      step('last'),
    ],
  };
}

function drawSteps(chance: Chance, index: number, count: number): readonly JsonMap[] {
  const size = 1 + chance.below(5);
  const isFan = chance.isOneIn(3);
  return Array.from({ length: size }, (_, at) => {
    const child = index + 1 < count && chance.isOneIn(4) ? index + 1 + chance.below(count - index - 1) : null;
    return step(`s${at}`, {
      ...(isFan ? fan(chance, at, size) : anywhere(chance, size)),
      ...(child === null ? loopOf(chance) : waitFor(chance, child)),
      ...specOf(chance),
      ...(chance.isOneIn(4) ? { set: { 'ctx.n': '{{ (ctx.n or 0) + 1 }}' } } : {}),
    });
  });
}

function waitFor(chance: Chance, child: number): JsonMap {
  return { tool: { kind: 'playbook', path: `flow/${child}`, wait: !chance.isOneIn(4) } };
}

function loopOf(chance: Chance): JsonMap {
  if (!chance.isOneIn(4)) return {};
  const mode = chance.pick(['sequential', 'parallel']);
  return {
    loop: { in: chance.below(5), iterator: 'item', spec: { mode, max_in_flight: 1 + chance.below(3) } },
  };
}

function specOf(chance: Chance): JsonMap {
  const failure = chance.pick([null, null, 'fail_fast', 'best_effort']);
  if (!chance.isOneIn(8)) return failure === null ? {} : { spec: { policy: { failure: { mode: failure } } } };
  return admission([chance.pick(['false', '(ctx.n or 0) > 1']), false]);
}

function fan(chance: Chance, at: number, size: number): JsonMap {
  const targets = new Set(Array.from({ length: 1 + chance.below(3) }, () => at + 1 + chance.below(size)));
  const arcs = [...targets].filter((to) => to < size).map((to) => ({ step: `s${to}` }));
  return { next: { spec: { mode: 'inclusive' }, arcs } };
}

function anywhere(chance: Chance, size: number): JsonMap {
  const arcs = Array.from({ length: chance.below(3) }, () => {
    const when = chance.pick(GUARDS);
    return { step: `s${chance.below(size)}`, ...(when === null ? {} : { when }) };
  });
  return { next: { spec: { mode: chance.pick(['exclusive', 'inclusive']) }, arcs } };
}
