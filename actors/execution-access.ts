/**
 * The rules of a playbook (`meta.access`, api 8.8.5) hold for its executions too: who may not see the playbook does not see
 * its runs, and who may not execute it does not end or repeat them. Admins and workers are held by no rule.
 */
import { type AccessRules, accessRefusal, mayAccess, type Permission, TOKEN_ROLES } from '../machines/access.ts';
import type { CurrentCaller } from './audit.ts';
import { DomainError } from './errors.ts';
import type { Clock } from './ports.ts';
import { Recent } from './recent.ts';
import type { ReadService } from './services.ts';

export interface ExecutionAccess {
  /** Throws forbidden. An execution nobody knows is left to whoever looks for it. */
  check(executionId: number, permission: Permission): Promise<void>;
}

export interface ExecutionAccessParts {
  readonly reads: Pick<ReadService, 'execution'>;
  /** Of one version. */
  readonly rulesOf: (catalogId: number) => Promise<AccessRules>;
  readonly caller: CurrentCaller;
  readonly clock: Clock;
}

/** Rules change seldom, and may be a second old. */
const BELIEVED_MS = 1_000;
const KEPT = { countMax: 10_000, sizeMax: 10_000 };

export interface RunningExecutionAccess extends ExecutionAccess {
  /** Lists without what the caller may not see. */
  guarded(reads: ReadService): ReadService;
}

export function createExecutionAccess({ reads, rulesOf, caller, clock }: ExecutionAccessParts): RunningExecutionAccess {
  const playbooks = new Recent<number, number>(KEPT);
  const believed = new Recent<number, { readonly until: number; readonly rules: Promise<AccessRules> }>(KEPT);

  function rules(catalogId: number): Promise<AccessRules> {
    const known = believed.get(catalogId);
    if (known !== undefined && known.until > clock.now()) return known.rules;
    const asked = rulesOf(catalogId);
    believed.put(catalogId, { until: clock.now() + BELIEVED_MS, rules: asked }, 1);
    asked.catch(() => believed.delete(catalogId));
    return asked;
  }

  function who() {
    const { actor: subject, role: name } = caller();
    const role = TOKEN_ROLES.find((each) => each === name) ?? null;
    return { subject, role, isHeld: role === 'viewer' || role === 'operator' };
  }

  async function allows(catalogId: number, permission: Permission): Promise<boolean> {
    const { subject, role, isHeld } = who();
    return !isHeld || role === null || mayAccess(await rules(catalogId), { subject, role }, permission);
  }

  async function playbookOf(executionId: number): Promise<number | null> {
    const known = playbooks.get(executionId) ?? (await reads.execution(executionId))?.catalogId ?? null;
    if (known !== null) playbooks.put(executionId, known, 1);
    return known;
  }

  return {
    async check(executionId, permission) {
      const { role, isHeld } = who();
      if (!isHeld || role === null) return;
      const catalogId = await playbookOf(executionId);
      if (catalogId === null || (await allows(catalogId, permission))) return;
      throw new DomainError('forbidden', accessRefusal(role, permission));
    },
    guarded: (all) => ({
      ...all,
      async executions(request) {
        const page = await all.executions(request);
        const seen = await Promise.all(page.rows.map((row) => allows(row.catalogId, 'view')));
        return { ...page, rows: page.rows.filter((_, index) => seen[index]) };
      },
    }),
  };
}
