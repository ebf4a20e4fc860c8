/** What the routes share beside the services: the clock, the settings they show, and what ends waiting calls. */
import type { FastifyReply } from 'fastify';
import type { CurrentCaller } from '../../actors/audit.ts';
import type { Clock, Log } from '../../actors/ports.ts';
import type { Services } from '../../actors/services.ts';
import { isoOf } from '../../machines/command/instant.ts';
import type { Metrics } from '../metrics.ts';
import type { Streams } from './streams.ts';

export interface ApiContext {
  readonly services: Services;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly streams: Streams;
  readonly settings: {
    readonly version: string;
    readonly runtimeOfflineSeconds: number;
    readonly workerHeartbeatStaleSeconds: number;
    readonly mcpExpose: 'marked' | 'all' | 'off';
    readonly mcpCallTimeoutSeconds: number;
    readonly aiPlaybook: string | null;
  };
  readonly lifecycle: Lifecycle;
  readonly waits: Waits;
  /** Of the request being served. */
  readonly caller: CurrentCaller;
  /** Callers are told apart (SVC_AUTH_MODE=enforce); else everyone is an admin. */
  readonly isEnforced: boolean;
  /** Whether a text is the token of SVC_INTERNAL_TOKEN; null: none is set. */
  readonly isInternal: ((token: string) => boolean) | null;
  /** Whether pages of this origin may call (api 1.11). */
  readonly isOriginAllowed: (origin: string) => boolean;
}

/** The state of the process, as its owner tells it. */
export interface Lifecycle {
  /** Everything a client may count on has been set up. */
  ready(): boolean;
  draining(): boolean;
  /** Aborted when the process stops: ends long polls and streams. */
  readonly stopping: AbortSignal;
  parts(): { readonly bus: 'ok' | 'degraded' | 'down'; readonly jobs: 'ok' | 'degraded' | 'down' };
  uptimeSeconds(): number;
}

/** Signals for calls that wait. */
export interface Waits {
  /** Aborted when the connection of this reply drops or the process stops. */
  signalFor(reply: FastifyReply): AbortSignal;
  /** Aborted when `given` is or the process stops; `over` when nobody waits any more. */
  joined(given: AbortSignal): { readonly signal: AbortSignal; over(): void };
  /** For calls that do not wait: never aborted, and shared. */
  readonly never: AbortSignal;
}

export function createWaits(stopping: AbortSignal): Waits {
  const open = new Set<AbortController>();
  stopping.addEventListener('abort', () => {
    for (const each of open) each.abort();
  });
  const opened = (): AbortController => {
    const controller = new AbortController();
    if (stopping.aborted) controller.abort();
    open.add(controller);
    return controller;
  };
  return {
    never: new AbortController().signal,
    signalFor(reply) {
      const controller = opened();
      reply.raw.once('close', () => {
        open.delete(controller);
        if (!reply.raw.writableFinished) controller.abort();
      });
      return controller.signal;
    },
    joined(given) {
      const controller = opened();
      const abort = () => controller.abort();
      if (given.aborted) abort();
      given.addEventListener('abort', abort, { once: true });
      return {
        signal: controller.signal,
        over() {
          open.delete(controller);
          given.removeEventListener('abort', abort);
        },
      };
    },
  };
}

/** The instant of an answer, by the database's clock. */
export function nowIso(clock: Clock): string {
  return isoOf(clock.now());
}
