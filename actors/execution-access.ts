/**
 * The rules of a playbook (`meta.access`, api 8.8.5) hold for its executions and all that belongs to them: who may not see the
 * playbook does not see its runs, commands, batches and results, and who may not execute it does not end or repeat them. Admins
 * and workers are held by no rule.
 */
import { type AccessRules, accessRefusal, mayAccess, type Permission, TOKEN_ROLES } from '../machines/access.ts';
import type { CurrentCaller } from './audit.ts';
import { DomainError } from './errors.ts';
import type { Bus, Clock } from './ports.ts';
import { Recent } from './recent.ts';
import type { ReadService } from './services.ts';

export interface ExecutionAccess {
  /** Throws forbidden. An execution nobody knows is left to whoever looks for it. */
  check(executionId: number, permission: Permission): Promise<void>;
  allows(executionId: number, permission: Permission): Promise<boolean>;
  /** Of a version by its id, or of a path. Throws forbidden. */
  checkPlaybook(which: number | string, permission: Permission): Promise<void>;
  allowsPlaybook(which: number | string, permission: Permission): Promise<boolean>;
}

export interface ExecutionAccessParts {
  readonly reads: Pick<ReadService, 'execution'>;
  /** Of one version, or of the newest of a path. */
  readonly rulesOf: (which: number | string) => Promise<AccessRules>;
  /** Every version that has rules. */
  readonly ruled: () => Promise<readonly { readonly catalogId: number; readonly rules: AccessRules }[]>;
  readonly caller: CurrentCaller;
  readonly clock: Clock;
  readonly news: RuleNews;
}

/** Tells that the rules of a playbook have changed: this server at once, the others by bus. */
export interface RuleNews {
  /** After the commit that changed rules, or which version of a playbook is the newest. */
  tell(): void;
  /** What was known in an earlier generation may be out of date. */
  generation(): number;
}

/** On topic `control`: rules of a playbook are others now. */
export const RULES_CHANGED = 'rules_changed';

export function createRuleNews(bus: Pick<Bus, 'publish' | 'subscribe'>): RuleNews {
  let generation = 0;
  bus.subscribe((topic, hints) => {
    if (topic === 'control' && hints.some((hint) => hint['action'] === RULES_CHANGED)) generation += 1;
  });
  return {
    tell() {
      generation += 1;
      bus.publish('control', [{ action: RULES_CHANGED }]);
    },
    generation: () => generation,
  };
}

/** Rules that another server has changed may be this old where its message was lost. */
const BELIEVED_MS = 1_000;
const KEPT = { countMax: 10_000, sizeMax: 10_000 };

export interface RunningExecutionAccess extends ExecutionAccess {
  /** Lists without what the caller may not see; totals and pages know nothing of it either. */
  guarded(reads: ReadService): ReadService;
}

export function createExecutionAccess(parts: ExecutionAccessParts): RunningExecutionAccess {
  const { reads, caller } = parts;
  const playbooks = new Recent<number, number>(KEPT);
  const rulesOf = believing(parts.rulesOf, parts);
  const ruled = believing(parts.ruled, parts);

  function who() {
    const { actor: subject, role: name } = caller();
    const role = TOKEN_ROLES.find((each) => each === name) ?? null;
    return role === 'viewer' || role === 'operator' ? { subject, role } : null;
  }

  function forbid(permission: Permission): never {
    throw new DomainError('forbidden', accessRefusal(who()?.role ?? 'viewer', permission));
  }

  async function playbookOf(executionId: number): Promise<number | null> {
    const known = playbooks.get(executionId) ?? (await reads.execution(executionId))?.catalogId ?? null;
    if (known !== null) playbooks.put(executionId, known, 1);
    return known;
  }

  async function allowsPlaybook(which: number | string, permission: Permission): Promise<boolean> {
    const held = who();
    return held === null || mayAccess(await rulesOf(which), held, permission);
  }

  async function allows(executionId: number, permission: Permission): Promise<boolean> {
    if (who() === null) return true;
    const catalogId = await playbookOf(executionId);
    return catalogId === null || (await allowsPlaybook(catalogId, permission));
  }

  /** Versions whose runs the caller may not see. */
  async function hidden(): Promise<readonly number[]> {
    const held = who();
    if (held === null) return [];
    const all = await ruled('all');
    return all.filter(({ rules }) => !mayAccess(rules, held, 'view')).map(({ catalogId }) => catalogId);
  }

  return {
    allows,
    allowsPlaybook,
    async check(executionId, permission) {
      if (!(await allows(executionId, permission))) forbid(permission);
    },
    async checkPlaybook(which, permission) {
      if (!(await allowsPlaybook(which, permission))) forbid(permission);
    },
    guarded: (all) => ({
      ...all,
      executions: async (request) => all.executions({ ...request, exceptCatalogIds: await hidden() }),
      commands: async (filter) => all.commands({ ...filter, exceptCatalogIds: await hidden() }),
    }),
  };
}

/** Concurrent callers share one question; an answer is believed for a while or until there is news, a failure never. */
function believing<K, V>(
  ask: (key: K) => Promise<V>,
  { clock, news }: Pick<ExecutionAccessParts, 'clock' | 'news'>,
): (key: K) => Promise<V> {
  interface Believed {
    readonly until: number;
    readonly generation: number;
    readonly answer: Promise<V>;
  }
  const kept = new Recent<K, Believed>(KEPT);
  return (key) => {
    const generation = news.generation();
    const known = kept.get(key);
    if (known !== undefined && known.generation === generation && known.until > clock.now()) return known.answer;
    const believed = { until: clock.now() + BELIEVED_MS, generation, answer: ask(key) };
    kept.put(key, believed, 1);
    believed.answer.catch(() => {
      if (kept.get(key) === believed) kept.delete(key);
    });
    return believed.answer;
  };
}
