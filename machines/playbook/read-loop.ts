/** Reads the loop of a step (language 9): over a collection, or over a cursor that hands out rows. */
import type { Json, JsonMap } from '../json.ts';
import type { Loop, Step } from './document.ts';
import { containsTemplate, literalNumber } from './literal.ts';
import { isIdentifier, RESERVED_ROOTS, shown } from './names.ts';
import { given, isMapPlace, type MapPlace, member, members, type Place, textOf } from './place.ts';
import type { Report, Subject } from './report.ts';
import { checkTemplates } from './template-checks.ts';
import { warnUnknownKeys } from './unknown-keys.ts';

const LOOP_KEYS = new Set(['in', 'cursor', 'iterator', 'spec']);
const SPEC_KEYS = new Set(['mode', 'max_in_flight', 'policy', 'frame']);
const CURSOR_KEYS = new Set(['kind', 'auth', 'credential', 'claim', 'options']);

/** The loop, or null when the step has none or it cannot be one. */
export function readLoop(report: Report, subject: Subject, step: MapPlace): Loop | null {
  const place = given(step, 'loop');
  if (place === null) return null;
  if (!isMapPlace(place)) {
    report.error('loop_shape', subject, place, "loop must be a map with 'in' and 'iterator'");
    return null;
  }
  warnUnknownKeys(report, subject, place, LOOP_KEYS, 'loop');
  const spec = given(place, 'spec');
  if (spec && !isMapPlace(spec)) report.error('loop_shape', subject, spec, 'loop.spec must be a map');
  if (isMapPlace(spec)) warnUnknownKeys(report, subject, spec, SPEC_KEYS, 'loop.spec');
  const iterator = readIterator(report, subject, place);
  const collection = member(place, 'in');
  const cursor = member(place, 'cursor');
  if ((collection === null) === (cursor === null)) {
    report.error('loop_shape', subject, cursor ?? place, "loop needs exactly one of 'in' and 'cursor'");
  }
  if (collection) checkTemplates(report, subject, collection, 'server');
  const mode = readMode(report, subject, place, spec, cursor !== null);
  return {
    mode,
    iterator,
    in: collection?.node.json ?? null,
    maxInFlight: readMaxInFlight(report, subject, spec),
    cursor: cursor ? readCursor(report, subject, cursor) : null,
    frame: readFrame(report, subject, spec),
  };
}

function readIterator(report: Report, subject: Subject, loop: MapPlace): string {
  const place = given(loop, 'iterator');
  const name = textOf(place);
  if (place === null || name === null || name === '') {
    report.error('loop_shape', subject, place ?? loop, "loop needs 'iterator'");
    return '';
  }
  if (RESERVED_ROOTS.has(name)) report.error('loop_shape', subject, place, `iterator '${name}' is reserved`);
  else if (!isIdentifier(name) || name === '__proto__') {
    report.error('loop_shape', subject, place, `iterator '${shown(name)}' is not an identifier`);
  }
  return name;
}

function readMode(
  report: Report,
  subject: Subject,
  loop: MapPlace,
  spec: Place | null,
  hasCursor: boolean,
): Loop['mode'] {
  const place = isMapPlace(spec) ? given(spec, 'mode') : null;
  const mode = place === null ? 'sequential' : textOf(place);
  const where = place ?? loop;
  if (mode !== 'sequential' && mode !== 'parallel' && mode !== 'cursor') {
    report.error(
      'loop_shape',
      subject,
      where,
      `unknown mode '${shown(String(mode ?? place?.node.json))}', use sequential, parallel or cursor`,
    );
    return 'sequential';
  }
  if (mode === 'cursor' && !hasCursor) report.error('loop_shape', subject, where, "mode cursor needs 'cursor'");
  if (mode !== 'cursor' && hasCursor) report.error('loop_shape', subject, where, "a 'cursor' needs mode cursor");
  return mode;
}

function readMaxInFlight(report: Report, subject: Subject, spec: Place | null): Json {
  const place = isMapPlace(spec) ? given(spec, 'max_in_flight') : null;
  if (place === null) return null;
  checkTemplates(report, subject, place, 'server');
  const value = place.node.json;
  const number = literalNumber(value);
  if (!containsTemplate(value) && (number === null || !Number.isInteger(number) || number < 1)) {
    report.error('loop_shape', subject, place, "'max_in_flight' must be an integer of at least 1");
  }
  return value;
}

function readFrame(report: Report, subject: Subject, spec: Place | null): JsonMap {
  const place = isMapPlace(spec) ? given(spec, 'frame') : null;
  if (place && !isMapPlace(place)) report.error('loop_shape', subject, place, 'loop.spec.frame must be a map');
  if (!isMapPlace(place)) return {};
  const mode = given(place, 'process');
  if (mode && mode.node.json !== 'row' && mode.node.json !== 'frame') {
    report.error('loop_shape', subject, mode, "'frame.process' must be row or frame");
  }
  for (const key of ['max_rows', 'row_concurrency']) {
    const count = given(place, key);
    const number = count ? literalNumber(count.node.json) : 1;
    if (count && (number === null || !Number.isInteger(number) || number < 1)) {
      report.error('loop_shape', subject, count, `'frame.${key}' must be an integer of at least 1`);
    }
  }
  return place.node.json;
}

/** The cursor with `credential` spelled `auth`. Its claim and auth are rendered by a worker, its options by the engine. */
function readCursor(report: Report, subject: Subject, place: Place): JsonMap {
  if (!isMapPlace(place)) {
    report.error('loop_shape', subject, place, "cursor must be a map with 'kind' and 'claim'");
    return {};
  }
  warnUnknownKeys(report, subject, place, CURSOR_KEYS, 'cursor');
  for (const { key, place: inner } of members(place)) {
    checkTemplates(report, subject, inner, key === 'options' ? 'server' : 'worker');
  }
  for (const key of ['kind', 'claim']) {
    const field = given(place, key);
    const text = textOf(field);
    if (field === null || text === '') {
      report.error('tool_field', subject, place, `'${key}' is required for kind cursor`);
    } else if (text === null) report.error('tool_field', subject, field, `'${key}' must be a string`);
    else if (key === 'kind' && text !== 'postgres' && text !== 'duckdb') {
      report.error('loop_shape', subject, field, `unknown cursor kind '${shown(text)}', use postgres or duckdb`);
    }
  }
  const { credential, ...fields } = place.node.json;
  return credential === undefined || fields['auth'] !== undefined ? fields : { ...fields, auth: credential };
}

/** `spec.policy.failure.mode` of a step (language 9.4). */
export function readFailureMode(report: Report, subject: Subject, policy: Place | null): Step['failureMode'] {
  const failure = isMapPlace(policy) ? given(policy, 'failure') : null;
  if (failure === null) return 'run_all';
  const place = isMapPlace(failure) ? given(failure, 'mode') : failure;
  if (place === null) return 'run_all';
  const mode = textOf(place);
  if (isMapPlace(failure) && (mode === 'fail_fast' || mode === 'best_effort')) return mode;
  report.error('loop_shape', subject, place, 'failure mode must be fail_fast or best_effort');
  return 'run_all';
}
