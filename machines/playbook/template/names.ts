/**
 * Which variable a name means, decided when a template is compiled: loop variables, `set` and `with` get numbered slots,
 * every other name is a root and asked of the scope. A `set` inside an `if` may not happen, so reading such a name
 * looks further out while its slot is unset.
 */
import { known } from '../../known.ts';

interface Variable {
  readonly slot: number;
  /** False while every assignment so far stands in a branch. */
  definite: boolean;
}

interface Frame {
  readonly variables: Map<string, Variable>;
  /** How many `if` are open in this frame. */
  branches: number;
  /** Slots that must be unset when the frame is entered again. */
  readonly conditional: Set<number>;
}

/** Slots to try in order; `free` when the scope is asked if all of them are unset. */
export interface Resolution {
  readonly slots: readonly number[];
  readonly free: boolean;
}

export class Names {
  readonly roots = new Set<string>();
  /** Static accesses to a member of a root: `steps.fetch`. */
  readonly members = new Set<string>();
  readonly #frames: Frame[] = [newFrame()];
  #slots = 0;

  get slotCount(): number {
    return this.#slots;
  }

  resolve(name: string): Resolution {
    const slots: number[] = [];
    for (const frame of this.#frames.toReversed()) {
      const variable = frame.variables.get(name);
      if (variable === undefined) continue;
      slots.push(variable.slot);
      if (variable.definite) return { slots, free: false };
    }
    this.roots.add(name);
    return { slots, free: true };
  }

  /** True when the name is a variable of the template, set or not. Does not make it a root. */
  isVariable(name: string): boolean {
    return this.#frames.some((frame) => frame.variables.has(name));
  }

  /** The slot that an assignment to this name writes, in the innermost frame. */
  declare(name: string): number {
    const frame = this.#innermost();
    const declared = frame.variables.get(name);
    const definite = frame.branches === 0;
    if (declared !== undefined) {
      declared.definite ||= definite;
      return declared.slot;
    }
    const slot = this.#slots;
    this.#slots += 1;
    frame.variables.set(name, { slot, definite });
    if (!definite) frame.conditional.add(slot);
    return slot;
  }

  /** Compiles something in a frame of its own; also returns the slots to unset on every entry. */
  frame<Result>(compile: () => Result): { readonly result: Result; readonly unset: readonly number[] } {
    const frame = newFrame();
    this.#frames.push(frame);
    const result = compile();
    this.#frames.pop();
    return { result, unset: [...frame.conditional] };
  }

  branch<Result>(compile: () => Result): Result {
    const frame = this.#innermost();
    frame.branches += 1;
    const result = compile();
    frame.branches -= 1;
    return result;
  }

  #innermost(): Frame {
    return known(this.#frames.at(-1));
  }
}

function newFrame(): Frame {
  return { variables: new Map(), branches: 0, conditional: new Set() };
}
