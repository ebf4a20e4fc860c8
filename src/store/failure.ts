/**
 * Which failures mean "the database is not there" and which mean "the database said no". The first become
 * UnavailableError: the outcome of what was asked is unknown or nothing happened, and asking again is right.
 */
import pg from 'pg';
import { type Meter, UnavailableError } from '../../actors/ports.ts';

/** Lost sessions, shutdown, too little of something, time limits, and losers of a deadlock. */
const TRANSIENT = /^(08...|53...|57P..|57014|55P03|40001|40P01|25P03|25P04|58030)$/;
const LOST =
  /^(Connection terminated|Query read timeout|timeout expired|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|Connection ended)/;

/** The error to throw for what `pg` rejected with. */
export function refined(error: unknown): unknown {
  if (error instanceof UnavailableError) return error;
  if (error instanceof pg.DatabaseError) {
    // Class 22 quotes the value it stumbled over, and the sentence of an error may be logged (api 7.2).
    if (error.code?.startsWith('22') === true) error.message = error.message.replace(/: ".*$/s, '');
    return TRANSIENT.test(error.code ?? '') ? new UnavailableError('db_unavailable', { cause: error }) : error;
  }
  if (error instanceof Error && (isSystemError(error) || LOST.test(error.message))) {
    return new UnavailableError('db_unavailable', { cause: error });
  }
  return error;
}

/** Counts what the database or the way to it answered with: the class of its SQLSTATE, or `lost` where there was no answer. */
export function countFailure(meter: Meter | undefined, error: unknown): void {
  if (meter === undefined) return;
  if (error instanceof pg.DatabaseError) {
    meter.count('svc_db_errors_total', { sqlstate_class: (error.code ?? 'unknown').slice(0, 2) });
  } else if (refined(error) instanceof UnavailableError && !(error instanceof UnavailableError)) {
    meter.count('svc_db_errors_total', { sqlstate_class: 'lost' });
  }
}

function isSystemError(error: Error): boolean {
  return (
    'syscall' in error ||
    (error instanceof AggregateError && error.errors.some((inner) => inner instanceof Error && isSystemError(inner)))
  );
}
