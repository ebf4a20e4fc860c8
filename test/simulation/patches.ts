/**
 * Changes to the source that exist in the simulator's process only, made while a module is loaded: constants so small that
 * a short run meets their edges, and planted defects that the simulator has to find. Each is a text that stands in its
 * file exactly once.
 */
export interface Patch {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

export interface Mutant extends Patch {
  readonly name: string;
  /** Planted with it: a second guard of the same promise, without which the first one's loss cannot be seen. */
  readonly also?: readonly Patch[];
  /** Why nobody can tell, where that is so: something else keeps the promise. */
  readonly equivalent?: string;
}

/** Pages, caches and cadences of a few. */
export const TINY: readonly Patch[] = [
  { file: 'actors/project.ts', find: 'const SNAPSHOT_EVERY = 64;', replace: 'const SNAPSHOT_EVERY = 2;' },
  { file: 'actors/flush.ts', find: 'actor.turnsSinceSnapshot >= 64', replace: 'actor.turnsSinceSnapshot >= 2' },
  { file: 'actors/execution-actor.ts', find: 'const TRACES_MAX = 256;', replace: 'const TRACES_MAX = 3;' },
  { file: 'actors/reaper.ts', find: 'const PAGE = 100;', replace: 'const PAGE = 2;' },
  { file: 'actors/recovery.ts', find: 'const PAGE = 1000;', replace: 'const PAGE = 2;' },
  { file: 'actors/recovery.ts', find: 'const LOW = 250;', replace: 'const LOW = 2;' },
  { file: 'actors/batches.ts', find: 'const PAGE = 1_000;', replace: 'const PAGE = 2;' },
];

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a report of an old attempt counts',
    file: 'actors/report.ts',
    find: "row.status !== 'PENDING' && report.attempt === row.attempt && row.workerId === workerId",
    replace: "row.status !== 'PENDING'",
  },
  {
    name: 'a report counts whoever sends it',
    file: 'actors/report.ts',
    find: 'report.attempt === row.attempt && row.workerId === workerId',
    replace: 'row.workerId === workerId',
  },
  {
    name: 'a new grant keeps the attempt',
    file: 'machines/command/claim.ts',
    find: 'attempt: command.attempt + 1,',
    replace: 'attempt: Math.max(1, command.attempt),',
  },
  {
    name: 'a command is taken from a healthy worker',
    file: 'machines/command/claim.ts',
    find: "if (now - heldSince(command) < hardTimeoutMs(policy)) return refuse('active_claim', 'healthy_worker_active');",
    replace: '',
  },
  {
    name: 'a heartbeat does not renew the hold',
    file: 'actors/holds.ts',
    find: 'if (touches.length > 0) await this.#parts.store.touch(touches);',
    replace: '',
  },
  {
    name: 'the key of a batch is not kept',
    file: 'actors/batch-intake.ts',
    find: '    idempotencyKey,\n    bodyHash,\n    state:',
    replace: '    idempotencyKey: null,\n    bodyHash,\n    state:',
  },
  {
    name: 'the key of a start is not kept',
    file: 'actors/execution-starts.ts',
    find: 'idempotencyKey: request.idempotencyKey ?? null,',
    replace: 'idempotencyKey: null,',
  },
  {
    name: 'events of a batch are not compared with earlier ones',
    file: 'actors/batch-filing.ts',
    find: 'if (known !== undefined) return known.eventId;',
    replace: '',
  },
  {
    name: 'a batch whose job is lost is not found again',
    file: 'actors/batches.ts',
    find: 'if (stranded.length > 0) await jobs.enqueue(stranded);',
    replace: '',
  },
  {
    name: 'batch.processing is written by every attempt',
    file: 'actors/batch-processor.ts',
    find: "'batch.processing', isFirst ? {} : null",
    replace: "'batch.processing', {}",
  },
  {
    name: 'a batch moves from any state',
    file: 'actors/memory/memory-batches.ts',
    find: 'before === undefined || before.state !== from',
    replace: 'before === undefined',
  },
  {
    name: 'the inbox is marked handled before it is',
    file: 'actors/project.ts',
    find: 'handledThrough: (actor.inbox[0]?.eventId ?? actor.row.lastEventId + 1) - 1,',
    replace: 'handledThrough: actor.row.lastEventId,',
  },
  {
    name: 'the inbox is handled from its end',
    file: 'actors/inbox.ts',
    find: '  const { writing } = actor;\n  if (writing === null) throw',
    replace: '  actor.inbox.reverse();\n  const { writing } = actor;\n  if (writing === null) throw',
  },
  {
    name: 'a head forgets how far events were handled',
    file: 'actors/memory/memory-store.ts',
    find: 'stored.row.handledThrough === head.expectedHandledThrough',
    replace: 'true',
  },
  {
    name: 'filed events take their turns after an end by hand',
    file: 'actors/inbox.ts',
    find: 'if (isEnding) foldEvent(actor, event);',
    replace: 'if (false) foldEvent(actor, event);',
  },
  {
    name: 'a flush that failed leaves memory as it is',
    file: 'actors/flush.ts',
    find: 'for (const executionId of held) supervisor.evict(executionId);',
    replace: '',
  },
  {
    name: 'an unknown outcome is tried again',
    file: 'actors/flush.ts',
    find: '    if (error instanceof UnavailableError) {\n      for (const queued of open)',
    replace: '    if (error instanceof DuplicateKeyError) {\n      for (const queued of open)',
  },
  {
    name: 'answers go out before the commit',
    file: 'actors/flush.ts',
    find: '        await store.commit(',
    replace:
      '        for (const { queued, value } of done) this.#jobs.settle(queued, () => queued.resolve(value));\n        await store.commit(',
  },
  {
    name: 'two flushes hold one execution',
    file: 'actors/job-queue.ts',
    find: '&& fits && !passed.has(executionId) && !busy.has(executionId)',
    replace: '&& fits && !passed.has(executionId)',
  },
  {
    name: 'a command is given out although the run ended in the same flush',
    file: 'actors/grant.ts',
    find: "actor.state.snapshot.status === 'done' ? 'ended' : actor.row.status",
    replace: 'actor.row.status',
    // An end also closes at once what could be given out.
    also: [
      {
        file: 'actors/execution-actor.ts',
        find: "if (row !== undefined) this.change(this.#closed(row, 'CANCELLED', event, event.context['reason']));",
        replace:
          "if (row !== undefined && this.state.snapshot.status !== 'done') this.change(this.#closed(row, 'CANCELLED', event, event.context['reason']));",
      },
    ],
  },
  {
    name: 'used-up attempts overwrite an outcome',
    file: 'actors/grant.ts',
    find: 'if (known === null) actor.note(',
    replace: 'if (known === null || true) actor.note(',
  },
  {
    name: 'commands stay open at the end of a run',
    file: 'actors/project.ts',
    find: 'if (terminal !== undefined) actor.closeAll(terminal);',
    replace: '',
  },
  {
    name: 'workflow.* comes after playbook.*',
    file: 'machines/execution/ending.ts',
    find: "  stage.record({ ...end, type: `workflow.${status}`, nodeName: 'workflow', nodeType: 'workflow' });\n  stage.record({ ...end, type: `playbook.${status}`, nodeName: stage.identity.path, nodeType: 'playbook' });",
    replace:
      "  stage.record({ ...end, type: `playbook.${status}`, nodeName: stage.identity.path, nodeType: 'playbook' });\n  stage.record({ ...end, type: `workflow.${status}`, nodeName: 'workflow', nodeType: 'workflow' });",
  },
  {
    name: 'an end is not final',
    file: 'actors/execution-ends.ts',
    find: "return (endsNow(actor) ?? actor.row.status) !== 'running';",
    replace: 'return false;',
  },
  {
    name: 'a parent that is behind refuses the end of its child',
    file: 'actors/children.ts',
    find: 'this.#parts.supervisor.refresh(waiting.executionId, command.latestEventId);',
    replace: '',
  },
  {
    name: 'a late end of a child is not looked for',
    file: 'actors/children.ts',
    find: 'for (const waiting of await store.parked()) settled',
    replace: 'for (const waiting of [] as Waiting[]) settled',
  },
  {
    name: 'children of a failed wait go on',
    file: 'actors/execution-ends.ts',
    find: 'for (const executionId of [child, ...(await this.#parts.store.runningDescendants(child))])',
    replace: 'for (const executionId of [] as number[])',
  },
  {
    name: 'a grant goes by the heartbeat it remembers',
    file: 'machines/command/claim.ts',
    find: 'const isNewer = heartbeatAt === null || instantOf(seen.heartbeatAt) > instantOf(heartbeatAt);',
    replace: 'const isNewer = false;',
  },
  {
    name: 'a snapshot is taken while events wait',
    file: 'actors/project.ts',
    find: 'isLate || endsNow || actor.inbox.length > 0 || actor.turnsSinceSnapshot',
    replace: 'isLate || endsNow || actor.turnsSinceSnapshot',
  },
  {
    name: 'what nobody handled is folded',
    file: 'actors/hydrate.ts',
    find: 'tail.filter((event) => event.causeId <= row.handledThrough)',
    replace: 'tail',
  },
  {
    name: 'a restart does not ask for other servers',
    file: 'actors/auto-resume.ts',
    find: 'if (await otherServerLives(startedAt, parts)) {',
    replace: 'if (false as boolean) {',
  },
  {
    name: 'old holders of a lease still write',
    file: 'actors/memory/memory-leases.ts',
    find: 'return kept?.row.holder === holder && kept.row.token === token && kept.until > clock.now();',
    replace: 'return kept !== undefined || holder === name || token === 0;',
  },
  {
    name: 'a dry run is not dry',
    file: 'actors/execution-ends.ts',
    find: 'for (let next = 0; !options.dryRun && next < selected.length;',
    replace: 'for (let next = 0; next < selected.length;',
  },
  {
    name: 'local entries are shared',
    file: 'machines/keychain/scope.ts',
    find: 'return `${name}:${catalogId}:${present(executionId)}`;',
    replace: 'return `${name}:${catalogId}:local`;',
  },
  {
    name: 'entries outlive their owner',
    file: 'actors/keychain-store.ts',
    find: '...flush.heads.filter((head) => head.end !== null).map((head) => head.executionId),',
    replace: '',
  },
  {
    name: 'reads that go together count once',
    file: 'actors/keychain-reads.ts',
    find: 'reads: batch.length,',
    replace: 'reads: 1,',
  },
  {
    name: 'an entry that is read is logged',
    file: 'actors/keychain-service.ts',
    find: '    warnOfMisfit(row, data);\n    return {',
    replace: "    log.info('An entry was read', { data });\n    return {",
  },
  {
    name: 'two waiting claims wake each other for ever',
    file: 'actors/handover.ts',
    find: '      const claimants = this.#skipped.get(executionId);\n      if (claimants === undefined) continue;',
    replace:
      '      const claimants = this.#skipped.get(executionId);\n    }\n    for (const [executionId, claimants] of this.#skipped) {',
  },
  {
    name: 'a refused write takes its neighbours along',
    file: 'actors/flush.ts',
    find: 'isRefusal ? open.length === 1 :',
    replace: 'isRefusal ? executions.size === 1 :',
  },
  {
    name: 'the reaper forgets pending commands',
    file: 'machines/command/sweep.ts',
    find: "instantOf(command.nextWakeAt) <= now ? 'pending_too_long' : null",
    replace: 'instantOf(command.nextWakeAt) <= now ? null : null',
    equivalent: 'the catch-up look of whoever waits for work finds them as well, within the same bound',
  },
  {
    name: 'a batch is filed without its job',
    file: 'actors/batch-intake.ts',
    find: '              actor.acceptBatch(batch);\n              actor.enqueue({ requestId, executionId });',
    replace: '              actor.acceptBatch(batch);',
  },
];

/** All of a mutant. */
export function patchesOf(mutant: Mutant): readonly Patch[] {
  return [mutant, ...(mutant.also ?? [])];
}
