/**
 * Everything that can go wrong in a world, by name, and the book of how often it did, and how often that mattered: not
 * that it was injected, but that somebody who was alive met it. A fault that never matters tests nothing.
 */
export const FAULTS = [
  'server killed',
  'server stopped in order',
  'server paused',
  'server cut off from the database',
  'server clock wrong',
  'worker killed',
  'worker drained',
  'worker paused',
  'worker cut off',
  'worker clock wrong',
  'worker forgets a command',
  'commit refused',
  'commit answer lost',
  'question unanswered',
  'slow commit',
  'request lost',
  'request doubled',
  'answer lost',
  'report sent again',
  'hint lost',
  'hint doubled',
  'hint late',
  'job lost',
  'row by hand',
] as const;

export type Fault = (typeof FAULTS)[number];

export interface FaultCounts {
  readonly fired: Iterable<readonly [Fault, number]>;
  readonly mattered: Iterable<readonly [Fault, number]>;
}

export class FaultBook {
  readonly fired = new Map<Fault, number>();
  readonly mattered = new Map<Fault, number>();

  /** It was injected. `matters` says so at once where nobody can fail to notice it. */
  fire(fault: Fault, matters = false): void {
    this.fired.set(fault, (this.fired.get(fault) ?? 0) + 1);
    if (matters) this.matter(fault);
  }

  /** Somebody met it. */
  matter(fault: Fault): void {
    this.mattered.set(fault, (this.mattered.get(fault) ?? 0) + 1);
  }

  add(other: FaultCounts): void {
    for (const [fault, count] of other.fired) this.fired.set(fault, (this.fired.get(fault) ?? 0) + count);
    for (const [fault, count] of other.mattered) this.mattered.set(fault, (this.mattered.get(fault) ?? 0) + count);
  }

  /** As a process tells another. */
  counts(): FaultCounts {
    return { fired: [...this.fired], mattered: [...this.mattered] };
  }

  /** One line for each fault there is. */
  lines(): readonly string[] {
    return FAULTS.map((fault) => {
      const fired = String(this.fired.get(fault) ?? 0).padStart(9);
      return `${fault.padEnd(34)} fired ${fired}   mattered ${String(this.mattered.get(fault) ?? 0).padStart(9)}`;
    });
  }

  never(): readonly Fault[] {
    return FAULTS.filter((fault) => (this.mattered.get(fault) ?? 0) === 0);
  }
}
