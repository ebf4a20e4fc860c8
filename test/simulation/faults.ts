/**
 * Everything that can go wrong in a world, by name, and the book of how often it did, and how often that mattered. A
 * fault that never matters tests nothing.
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

export class FaultBook {
  readonly fired = new Map<Fault, number>();
  readonly mattered = new Map<Fault, number>();

  fire(fault: Fault, matters = true): void {
    this.fired.set(fault, (this.fired.get(fault) ?? 0) + 1);
    if (matters) this.matter(fault);
  }

  matter(fault: Fault): void {
    this.mattered.set(fault, (this.mattered.get(fault) ?? 0) + 1);
  }

  add(other: FaultBook): void {
    for (const [fault, count] of other.fired) this.fired.set(fault, (this.fired.get(fault) ?? 0) + count);
    for (const [fault, count] of other.mattered) this.mattered.set(fault, (this.mattered.get(fault) ?? 0) + count);
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
