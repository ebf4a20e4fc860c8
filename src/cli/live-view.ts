/**
 * Draws a run: on a terminal a list of steps that is drawn over in place, elsewhere one line for each change. Both are
 * made from the same lines, and both go to stderr.
 */
import { printable } from '../log.ts';
import type { LoopProgress, RunProgress, StepProgress, StepState } from './step-progress.ts';
import type { Colour, Terminal } from './terminal.ts';

export interface RunView {
  show(run: RunProgress): void;
  /** The last picture stays. */
  close(): void;
}

export function runView(terminal: Terminal): RunView {
  return terminal.live ? drawnView(terminal) : lineView(terminal);
}

const MARKS: Readonly<Record<StepState, { readonly mark: string; readonly colour: Colour }>> = {
  waiting: { mark: '·', colour: 'dim' },
  running: { mark: '▸', colour: 'cyan' },
  done: { mark: '✓', colour: 'green' },
  failed: { mark: '✗', colour: 'red' },
  skipped: { mark: '-', colour: 'dim' },
  stopped: { mark: '■', colour: 'yellow' },
};

/** `✓ fetch  http  12/40, 1 failed  1.2s` without colours; for tests and for both views. */
export function stepLine(step: StepProgress, widths: { readonly name: number; readonly kind: number }): string {
  const parts = [
    MARKS[step.state].mark,
    printable(step.name).padEnd(widths.name),
    step.kind.padEnd(widths.kind),
    ...(step.loop === null ? [] : [loopText(step.loop)]),
    ...(step.activations > 1 ? [`round ${step.activations}`] : []),
    ...(step.durationMs === null ? [] : [durationText(step.durationMs)]),
    ...(step.error === null || step.state === 'done' ? [] : [printable(step.error)]),
  ];
  return parts.join('  ').trimEnd();
}

export function widthsOf(steps: readonly StepProgress[]): { name: number; kind: number } {
  return {
    name: Math.max(4, ...steps.map((step) => printable(step.name).length)),
    kind: Math.max(4, ...steps.map((step) => step.kind.length)),
  };
}

function loopText(loop: LoopProgress): string {
  const ended = loop.done + loop.failed;
  const counted = loop.expected === null ? `${ended} done` : `${ended}/${loop.expected}`;
  const bar = loop.expected === null || loop.expected === 0 ? '' : `${barOf(ended / loop.expected)} `;
  return `${bar}${counted}${loop.failed > 0 ? `, ${loop.failed} failed` : ''}${loop.open > 0 ? `, ${loop.open} open` : ''}`;
}

function barOf(part: number): string {
  const full = Math.min(16, Math.floor(part * 16));
  return `${'█'.repeat(full)}${'░'.repeat(16 - full)}`;
}

/** `84ms`, `1.2s`, `2m 5s`, `3h 20m`, `30d 4h`. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  if (whole < 3_600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1_440) return `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
  return `${Math.floor(minutes / 1_440)}d ${Math.floor((minutes % 1_440) / 60)}h`;
}

function drawnView(terminal: Terminal): RunView {
  let drawn = 0;
  return {
    show: (run) => {
      const lines = visible(run.steps, terminal.rows - 2).map((step) => {
        const line = stepLine(step, widthsOf(run.steps)).slice(0, terminal.columns - 1);
        return terminal.style(MARKS[step.state].colour, line);
      });
      terminal.err(
        `${drawn > 0 ? `\u001b[${drawn}A` : ''}${lines.map((line) => `\u001b[2K${line}\n`).join('')}\u001b[J`,
      );
      drawn = lines.length;
    },
    close: () => {},
  };
}

/** What fits the screen: from the first step that has not ended, with a little of what came before. */
function visible(steps: readonly StepProgress[], rows: number): readonly StepProgress[] {
  if (steps.length <= rows) return steps;
  const open = steps.findIndex((step) => step.state === 'running' || step.state === 'waiting');
  const from = Math.min(Math.max(0, (open < 0 ? steps.length : open) - 3), steps.length - rows);
  return steps.slice(from, from + rows);
}

function lineView(terminal: Terminal): RunView {
  const printed = new Map<string, string>();
  return {
    show: (run) => {
      for (const step of run.steps) {
        const key = newsOf(step);
        if (step.state === 'waiting' || printed.get(step.name) === key) continue;
        printed.set(step.name, key);
        terminal.err(`${stepLine(step, widthsOf(run.steps))}\n`);
      }
    },
    close: () => {},
  };
}

/** Two pictures of a step with the same news are one line: state, round, and a loop's progress in tenths. */
function newsOf(step: StepProgress): string {
  const { loop } = step;
  const ended = loop === null ? 0 : loop.done + loop.failed;
  const tenths =
    loop === null ? 0 : loop.expected === null ? ended : Math.floor((ended * 10) / Math.max(1, loop.expected));
  return `${step.state}/${step.activations}/${tenths}`;
}
