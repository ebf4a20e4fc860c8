/**
 * What a seed stands for: the size of the world, its settings, how often each thing goes wrong, and a list of what is
 * done and what befalls whom, and when. All of it is drawn before anything runs, so that parts can be taken out of it.
 */

import type { AutoResumeMode } from '../../actors/auto-resume.ts';
import type { EngineSettings } from '../../actors/engine.ts';
import type { JsonMap } from '../../machines/json.ts';
import { Chance } from '../support/arbitraries.ts';
import { SETTINGS } from '../support/world.ts';
import { crowdedLoop, drawPlaybooks, failingWaits } from './playbooks.ts';

/** Chances in a thousand. */
export interface Rates {
  readonly commitRefused: number;
  readonly commitLost: number;
  readonly questionFailed: number;
  readonly slowCommit: number;
  readonly requestLost: number;
  readonly requestDoubled: number;
  readonly answerLost: number;
  readonly sentAgain: number;
  readonly hintLost: number;
  readonly hintDoubled: number;
  readonly hintLate: number;
  readonly jobLost: number;
  readonly forgets: number;
}

export type Deed =
  | { readonly kind: 'start'; readonly path: string; readonly key: string; readonly repeats: number }
  | { readonly kind: 'cancel'; readonly nth: number; readonly cascade: boolean }
  | { readonly kind: 'finalize'; readonly nth: number }
  /** `isFiled`: right behind a batch that ends the run, so that its events wait when the row comes. */
  | { readonly kind: 'byHand'; readonly nth: number; readonly isFiled: boolean }
  | { readonly kind: 'cleanup'; readonly minutes: number; readonly dryRun: boolean }
  | {
      readonly kind: 'batch';
      readonly nth: number;
      readonly key: string;
      readonly repeats: number;
      readonly end: boolean;
    }
  | { readonly kind: 'sweep' }
  | { readonly kind: 'keep'; readonly scope: 'local' | 'shared' | 'global'; readonly nth: number; readonly ttl: number }
  | { readonly kind: 'look'; readonly nth: number; readonly renew: boolean; readonly readers: number }
  | { readonly kind: 'killServer'; readonly who: number; readonly downMs: number }
  | { readonly kind: 'stopServer'; readonly who: number; readonly downMs: number }
  | { readonly kind: 'pauseServer'; readonly who: number; readonly ms: number }
  | { readonly kind: 'cutDatabase'; readonly who: number; readonly ms: number }
  | { readonly kind: 'killWorker'; readonly who: number; readonly downMs: number }
  | { readonly kind: 'drainWorker'; readonly who: number; readonly downMs: number }
  | { readonly kind: 'pauseWorker'; readonly who: number; readonly ms: number }
  | { readonly kind: 'cutWorker'; readonly who: number; readonly ms: number };

export type Happening = Deed & { readonly id: string; readonly atMs: number };

export type WorkerWay = 'exchange' | 'events' | 'batch';

export interface Plan {
  readonly seed: number;
  readonly servers: readonly { readonly skewMs: number }[];
  readonly workers: readonly { readonly way: WorkerWay; readonly capacity: number; readonly skewMs: number }[];
  readonly playbooks: Readonly<Record<string, readonly JsonMap[]>>;
  readonly rates: Rates;
  readonly happenings: readonly Happening[];
  readonly settings: EngineSettings;
  readonly pace: {
    readonly leaseSeconds: number;
    readonly reaperSeconds: number;
    readonly reaperMaxPerRun: number;
    readonly staleSeconds: number;
    readonly reconcileSeconds: number;
    readonly heartbeatSeconds: number;
    readonly offlineSeconds: number;
    readonly batchSeconds: number;
    readonly resume: AutoResumeMode;
    readonly latencyMs: number;
    readonly safetyMs: number;
    /** Commands that take longer than anybody waits, in a thousand. */
    readonly slowTools: number;
  };
  /** After healing only one server and one worker are left. */
  readonly onlyCore: boolean;
  /** Nothing goes wrong at all: then nothing may be taken from anybody. */
  readonly isCalm: boolean;
}

const NO_RATES: Rates = {
  ...{ commitRefused: 0, commitLost: 0, questionFailed: 0, slowCommit: 0, requestLost: 0, requestDoubled: 0 },
  ...{ answerLost: 0, sentAgain: 0, hintLost: 0, hintDoubled: 0, hintLate: 0, jobLost: 0, forgets: 0 },
};

/** Worlds for what others hardly ever come by, each one of so many. */
const RARE = 14;
/** Several workers report on one execution all the time, each in its way; in half of these worlds it is ended meanwhile. */
const CROWD = 5;
/** Those who tell one thing after the other are killed between two, and a command has one try. */
const IMPATIENT = 12;

const CROWDING: readonly WorkerWay[] = ['exchange', 'batch', 'exchange', 'batch', 'exchange', 'batch'];
const TELLING: readonly WorkerWay[] = ['events', 'events'];

export function drawPlan(seed: number): Plan {
  const chance = new Chance(Math.imul(seed, 0x9e3779b1) ^ 0x51ed270b);
  const isCalm = chance.isOneIn(9);
  const servers = Array.from({ length: 1 + chance.below(3) }, () => ({ skewMs: isCalm ? 0 : drawSkew(chance) }));
  const workerCount = chance.isOneIn(12) ? 0 : 1 + chance.below(chance.isOneIn(3) ? 6 : 3);
  const workers = Array.from({ length: workerCount }, () => ({
    way: chance.pick<WorkerWay>(['exchange', 'exchange', 'exchange', 'exchange', 'events', 'batch']),
    capacity: 1 + chance.below(4),
    skewMs: isCalm ? 0 : drawSkew(chance),
  }));
  const drawn = drawPlaybooks(chance);
  const isCrowd = seed % RARE === CROWD;
  const isEnded = seed % (2 * RARE) === CROWD;
  const isImpatient = seed % RARE === IMPATIENT;
  const playbooks = seed % 7 === 3 ? failingWaits() : isCrowd ? crowdedLoop(isEnded ? 20 : 12) : drawn;
  const ways = isCrowd ? CROWDING : isImpatient ? TELLING : [];
  for (const way of ways) workers.push({ way, capacity: isEnded ? 1 : 2, skewMs: 0 });
  const count = 1 + chance.below(chance.isOneIn(5) ? 20 : 6);
  const executions = isEnded ? 4 : isCrowd ? Math.min(2, count) : count;
  const pace = {
    leaseSeconds: chance.pick([2, 5, 10]),
    reaperSeconds: chance.pick([1, 3, 10]),
    reaperMaxPerRun: chance.pick([1, 3, 100]),
    staleSeconds: chance.pick([3, 6]),
    reconcileSeconds: chance.pick([2, 5, 15]),
    heartbeatSeconds: 1,
    offlineSeconds: chance.pick([3, 5]),
    batchSeconds: chance.pick([1, 4]),
    resume: chance.pick<AutoResumeMode>(['continue', 'continue', 'cancel', 'restart']),
    // A crowd that waits so long for each answer that it gives up is not calm.
    latencyMs: Math.min(isCrowd && isCalm ? 20 : 80, chance.pick([1, 4, 20, 80])),
    safetyMs: 8_000 + chance.below(chance.isOneIn(6) ? 60_000 : 14_000),
    slowTools: isCalm ? chance.pick([0, 60]) : chance.pick([0, 0, 20, 100]),
  };
  const settings: EngineSettings = {
    ...SETTINGS,
    limits: {
      ...SETTINGS.limits,
      maxStepActivations: chance.pick([3, 5]),
      maxDenials: 60,
      inlineMaxBytes: chance.pick([4_096, 4_096, 60]),
    },
    policy: { leaseSeconds: chance.pick([2, 6]), heartbeatStaleSeconds: 4, hardTimeoutSeconds: chance.pick([16, 24]) },
    pendingRetrySeconds: chance.pick([2, 6]),
    cancelCheckSeconds: 5,
    commandMaxAttempts: isCalm ? 5 : isImpatient ? 1 : chance.pick([60, 60, 60, 3]),
    // Not drawn: the other choices of a seed stay what they were.
    flushIntervalMs: seed % 3 === 0 ? 2 : 0,
    flushMaxTurns: chance.pick([1, 2, 256]),
    mailboxMax: chance.pick([2, 64, 64]),
    // So few that every turn loads its execution is for quick databases.
    actorsMax: pace.latencyMs > 10 ? chance.pick([4, 8, 1_000]) : chance.pick([1, 2, 1_000]),
  };
  return {
    ...{ seed, servers, workers, playbooks, settings, pace, isCalm },
    rates: isCalm ? NO_RATES : drawRates(chance),
    happenings: drawHappenings(chance, {
      executions,
      servers: servers.length,
      workers: workers.length,
      isCalm,
      pace,
      playbooks,
      isEnded,
      kills: isImpatient ? 6 : 0,
    }),
    onlyCore: !isCalm && chance.isOneIn(3),
  };
}

function drawSkew(chance: Chance): number {
  const size = chance.pick([0, 0, 0, 50, 1_500, 600_000]);
  return chance.below(2 * size + 1) - size;
}

function drawRates(chance: Chance): Rates {
  const rate = (...sizes: readonly number[]) => chance.pick([0, 0, ...sizes]);
  return {
    commitRefused: rate(10, 60, 200),
    commitLost: rate(10, 60, 200),
    questionFailed: rate(3, 20),
    slowCommit: rate(20, 100),
    requestLost: rate(10, 100),
    requestDoubled: rate(20, 150),
    answerLost: rate(20, 150),
    sentAgain: rate(30, 150),
    hintLost: rate(100, 1_000, 1_000),
    hintDoubled: rate(100),
    hintLate: rate(200),
    jobLost: rate(0, 100, 400),
    forgets: rate(0, 20, 60),
  };
}

interface Sizes {
  readonly executions: number;
  readonly servers: number;
  readonly workers: number;
  readonly isCalm: boolean;
  readonly pace: Plan['pace'];
  readonly playbooks: Plan['playbooks'];
  /** Besides what is drawn. */
  readonly isEnded: boolean;
  readonly kills: number;
}

function drawHappenings(chance: Chance, sizes: Sizes): readonly Happening[] {
  const { executions, servers, workers, isCalm, pace } = sizes;
  const list: Happening[] = [];
  const add = (prefix: string, atMs: number, deed: Deed) => list.push({ ...deed, id: `${prefix}${list.length}`, atMs });
  const sometime = () => chance.below(Math.floor(pace.safetyMs * 0.9));
  const paths = Object.keys(sizes.playbooks);
  for (let count = 0; count < executions; count += 1) {
    const early = chance.below(Math.floor(pace.safetyMs / 2));
    add('e', early, {
      kind: 'start',
      path: chance.pick(paths),
      key: `key-${count}`,
      repeats: chance.isOneIn(4) ? 2 : 1,
    });
    if (sizes.isEnded) add('w', early + 400 + chance.below(2_000), { kind: 'cancel', nth: count, cascade: true });
  }
  const some = (most: number, deed: () => [prefix: string, Deed]) => {
    for (let count = chance.below(most + 1); count > 0; count -= 1) add(...spread(deed(), sometime()));
  };
  const nth = () => chance.below(executions);
  if (chance.isOneIn(2)) some(2, () => ['w', { kind: 'cancel', nth: nth(), cascade: chance.isOneIn(2) }]);
  if (chance.isOneIn(6)) some(1, () => ['w', { kind: 'finalize', nth: nth() }]);
  if (chance.isOneIn(5)) some(2, () => ['w', { kind: 'cleanup', minutes: pace.safetyMs / 240_000, dryRun: false }]);
  if (chance.isOneIn(4)) some(1, () => ['w', { kind: 'cleanup', minutes: 0.01, dryRun: true }]);
  let keys = 0;
  if (chance.isOneIn(2))
    some(5, () => {
      keys += chance.isOneIn(4) ? 0 : 1;
      return [
        'w',
        { kind: 'batch', nth: nth(), key: `b${keys}`, repeats: 1 + chance.below(3), end: chance.isOneIn(6) },
      ];
    });
  if (chance.isOneIn(3)) some(2, () => ['w', { kind: 'sweep' }]);
  if (chance.isOneIn(2)) {
    some(3, () => {
      const scope = chance.pick(['local', 'shared', 'global'] as const);
      return ['k', { kind: 'keep', scope, nth: nth(), ttl: chance.pick([3, 600]) }];
    });
    some(6, () => {
      // Reads that come together are counted together.
      const readers = chance.pick([1, 1, 1, 9]);
      return ['k', { kind: 'look', nth: nth(), renew: chance.isOneIn(3), readers }];
    });
  }
  if (isCalm) return list;
  if (chance.isOneIn(5)) some(1, () => ['f', { kind: 'byHand', nth: nth(), isFiled: chance.isOneIn(2) }]);
  const server = () => chance.below(servers);
  const downMs = () => chance.pick([10, 1_000, 8_000]);
  if (chance.isOneIn(2)) some(3, () => ['f', { kind: 'killServer', who: server(), downMs: downMs() }]);
  if (chance.isOneIn(5)) some(1, () => ['f', { kind: 'stopServer', who: server(), downMs: downMs() }]);
  if (chance.isOneIn(3))
    some(2, () => ['f', { kind: 'pauseServer', who: server(), ms: chance.pick([500, 4_000, 25_000]) }]);
  if (chance.isOneIn(4)) some(2, () => ['f', { kind: 'cutDatabase', who: server(), ms: chance.pick([300, 6_000]) }]);
  if (workers === 0) return list;
  const worker = () => chance.below(workers);
  if (chance.isOneIn(2)) some(3, () => ['f', { kind: 'killWorker', who: worker(), downMs: downMs() }]);
  for (let at = 0; at < sizes.kills; at += 1)
    add('f', sometime(), { kind: 'killWorker', who: workers - 1 - (at % TELLING.length), downMs: downMs() });
  if (chance.isOneIn(5)) some(1, () => ['f', { kind: 'drainWorker', who: worker(), downMs: downMs() }]);
  if (chance.isOneIn(2))
    some(3, () => ['f', { kind: 'pauseWorker', who: worker(), ms: chance.pick([500, 5_000, 12_000]) }]);
  if (chance.isOneIn(3)) some(2, () => ['f', { kind: 'cutWorker', who: worker(), ms: chance.pick([500, 7_000]) }]);
  return list;
}

function spread([prefix, deed]: [string, Deed], atMs: number): [string, number, Deed] {
  return [prefix, atMs, deed];
}

/** The plan in one line, for the first line of a run. */
export function describePlan(plan: Plan): string {
  const { rates, pace, happenings } = plan;
  const wrong = Object.entries(rates).filter(([, rate]) => rate > 0);
  const kinds = Map.groupBy(happenings, (each) => each.kind);
  const done = [...kinds].map(([kind, list]) => `${kind}×${list.length}`);
  return [
    `servers ${plan.servers.length}`,
    `workers ${plan.workers.map((each) => each.way).join('+') || 'none'}`,
    plan.isCalm ? 'calm' : wrong.map(([name, rate]) => `${name} ${rate / 10}%`).join(' '),
    done.join(' '),
    `latency ${pace.latencyMs} ms`,
    `restart: ${pace.resume}`,
  ].join('; ');
}
