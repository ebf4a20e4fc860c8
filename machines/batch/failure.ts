/** What a failed batch says of itself. The other codes of batches are refusals of the intake and reach no batch. */

export type BatchFailureCode = 'processing_timeout' | 'processing_error';

export interface BatchFailure {
  readonly code: BatchFailureCode;
  readonly message: string;
}

export function timedOut(seconds: number): BatchFailure {
  return { code: 'processing_timeout', message: `The batch was not processed within ${seconds} seconds` };
}

/** `defect` is the message of what was thrown; values of callers are not in it. */
export function couldNotHandle(defect: string): BatchFailure {
  return { code: 'processing_error', message: `An event of the batch could not be handled: ${defect}` };
}
