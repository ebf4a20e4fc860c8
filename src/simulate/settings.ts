/**
 * The settings of a simulation are the defaults of the service, wherever it runs: the same request gives the same log.
 * Templates have no clock, for the same reason; what bounds them is their number of steps.
 */
import type { EngineSettings } from '../../actors/engine.ts';
import { readConfig } from '../config.ts';

const config = readConfig({});

export const ENGINE_SETTINGS: EngineSettings = {
  limits: {
    maxStepActivations: config.maxStepActivations,
    loopMaxItems: config.loopMaxItems,
    loopMaxInFlight: config.loopMaxInFlight,
    inlineMaxBytes: config.resultInlineMaxBytes,
    maxDenials: 1_000,
    template: { steps: config.templateMaxSteps, outputBytes: config.templateMaxOutputBytes },
  },
  policy: {
    leaseSeconds: config.claimLeaseSeconds,
    heartbeatStaleSeconds: config.workerHeartbeatStaleSeconds,
    hardTimeoutSeconds: config.healthyHardTimeoutSeconds ?? config.reaperHardTimeoutSeconds,
  },
  pendingRetrySeconds: config.pendingRetrySeconds,
  stepTimeoutSeconds: config.stepTimeoutSeconds,
  commandMaxAttempts: config.commandMaxAttempts,
  cancelCheckSeconds: config.cancelCheckSeconds,
  nestingMax: 32,
  // There is no transaction to share, and its pause would be one of true time.
  flushIntervalMs: 0,
  flushMaxTurns: config.flushMaxTurns,
  mailboxMax: config.mailboxMax,
  actorsMax: 4_096,
  payloadBytesMax: 64 * 1024 * 1024,
};

export const WORKER_SETTINGS = {
  pipelineMaxTries: config.pipelineMaxTries,
  resultInlineMaxBytes: config.resultInlineMaxBytes,
} as const;
