/**
 * The order of keys across jsonb. Templates see maps in the order their authors wrote them (language 8.9, 9.1), and jsonb
 * sorts keys by length and bytes; a run that is read back would then print or iterate a map otherwise than before. So
 * what templates can see of a row travels with the orders that jsonb would lose: once per set of keys, because the rows
 * of a list have the same. Where two maps of one row have the same keys in different orders, the text itself travels.
 */
import type { CommandRow, EventRow, Flush, StoredSnapshot } from '../../actors/ports.ts';
import type { LogEvent } from '../../machines/events.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';

const KEY = 'key_order';

/** Lists of keys, or the JSON text of the values; null where jsonb loses nothing. */
type KeyOrder = readonly (readonly string[])[] | string;

/** The column `state` of an execution. */
export interface StateColumn {
  readonly value: Json;
  readonly context: JsonMap;
  readonly through_event_id: number;
  readonly key_order?: KeyOrder;
}

/** The flush as it is to be stored. */
export function withKeyOrders(flush: Flush): Flush {
  return {
    ...flush,
    events: flush.events.map(withEventOrder),
    issued: flush.issued.map(withCommandOrder),
    commands: flush.commands.map(withCommandOrder),
  };
}

function withEventOrder(event: EventRow): EventRow {
  // Most events show templates nothing.
  const order = PLACES.has(event.type) ? orderOf(visibleParts(event)) : null;
  if (order === null && event.meta[KEY] === undefined) return event;
  const { [KEY]: _foreign, ...meta } = event.meta;
  return { ...event, meta: order === null ? meta : { ...meta, [KEY]: order } };
}

function withCommandOrder<Row extends { readonly context?: CommandRow['context'] }>(row: Row): Row {
  const { context } = row;
  if (!isMap(context)) return row;
  const order = orderOf(SEEN_BY_TASKS.map((path) => partAt(context, path)));
  return order === null ? row : { ...row, context: { ...context, [KEY]: order } };
}

/** Rows as they were before they were stored. */
export function inKeyOrder<Row extends Pick<LogEvent, 'type' | 'context' | 'result' | 'meta'>>(
  events: readonly Row[],
): Row[] {
  return events.map((event) => {
    const order = keyOrderIn(event.meta);
    if (order === null) return event;
    const { [KEY]: _order, ...meta } = event.meta;
    return withParts({ ...event, meta }, restored(visibleParts(event), order));
  });
}

export function commandsInKeyOrder<Row extends Pick<CommandRow, 'context'>>(rows: readonly Row[]): Row[] {
  return rows.map((row) => {
    const order = isMap(row.context) ? keyOrderIn(row.context) : null;
    if (order === null || !isMap(row.context)) return row;
    const { [KEY]: _order, ...context } = row.context;
    const parts = restored(
      SEEN_BY_TASKS.map((path) => partAt(context, path)),
      order,
    );
    return {
      ...row,
      context: SEEN_BY_TASKS.reduce((map, path, at) => withPart(map, path, parts[at] ?? null), context),
    };
  });
}

/** A snapshot as it is to be stored: templates walk the steps and the variables of a run in the order of its maps. */
export function stateWithKeyOrder({ value, context, throughEventId }: StoredSnapshot): StateColumn {
  const order = orderOf([context]);
  return { value, context, through_event_id: throughEventId, ...(order === null ? {} : { [KEY]: order }) };
}

export function stateInKeyOrder(state: StateColumn, machineVersion: number): StoredSnapshot {
  const { value, context, through_event_id: throughEventId, [KEY]: order } = state;
  const [inOrder] = order === undefined ? [context] : restored([context], order);
  // What was restored from a map is a map.
  return { value, context: inOrder as JsonMap, throughEventId, machineVersion };
}

/** A schema as it is to be stored: what data does wrong is told in the order of its types (api 4.5). */
export function schemaWithKeyOrder(schema: JsonMap): JsonMap {
  const order = orderOf([schema['types'] ?? null]);
  return order === null ? schema : { ...schema, [KEY]: order };
}

export function schemaInKeyOrder(schema: JsonMap): JsonMap {
  const order = keyOrderIn(schema);
  if (order === null) return schema;
  const { [KEY]: _order, ...rest } = schema;
  const [types = null] = restored([rest['types'] ?? null], order);
  return { ...rest, types };
}

// ---------------------------------------------------------------- what templates can see of a command

const SEEN_BY_TASKS: readonly (readonly string[])[] = [
  ...['workload', 'args', 'ctx', 'steps', 'iteration'].map((name) => ['render_context', name]),
  ['resume'],
];

function partAt(map: JsonMap, [first = '', ...rest]: readonly string[]): Json {
  const part = map[first] ?? null;
  return rest.length === 0 ? part : isMap(part) ? partAt(part, rest) : null;
}

function withPart(map: JsonMap, [first = '', ...rest]: readonly string[], part: Json): JsonMap {
  const inner = map[first];
  if (part === null || inner === undefined) return map;
  return { ...map, [first]: rest.length === 0 || !isMap(inner) ? part : withPart(inner, rest, part) };
}

// ---------------------------------------------------------------- what templates can see of an event

type Place = readonly ['context' | 'meta', string] | readonly ['result'];

const OUTCOME: readonly Place[] = [['result'], ['meta', 'ctx'], ['meta', 'tasks']];
/** A map, because a client may name a type as objects name what they inherit. */
const PLACES: ReadonlyMap<string, readonly Place[]> = new Map<string, readonly Place[]>([
  [
    'execution.started',
    [
      ['context', 'workload'],
      ['context', 'args'],
    ],
  ],
  ['step.enter', [['context', 'collection']]],
  ['ctx.updated', [['context', 'values']]],
  ['call.done', OUTCOME],
  ['call.error', OUTCOME],
  ['loop.done', [['result']]],
  ['step.exit', [['result']]],
  ['command.heartbeat', [['context', 'resume']]],
  // What a parent is given of its child.
  ['playbook.completed', [['context', 'result']]],
]);

function visibleParts({ type, context, result, meta }: Pick<LogEvent, 'type' | 'context' | 'result' | 'meta'>): Json[] {
  return (PLACES.get(type) ?? []).map(([column, key]) => {
    if (column === 'result') return result?.context ?? null;
    return (column === 'context' ? context : meta)[key ?? ''] ?? null;
  });
}

function withParts<Row extends Pick<LogEvent, 'type' | 'context' | 'result' | 'meta'>>(
  event: Row,
  parts: readonly Json[],
): Row {
  let { context, result, meta } = event;
  for (const [index, [column, key]] of (PLACES.get(event.type) ?? []).entries()) {
    const part = parts[index] ?? null;
    if (part === null) continue;
    if (column === 'result') result = result === null || !isMap(part) ? result : { ...result, context: part };
    else if (column === 'context') context = { ...context, [key]: part };
    else meta = { ...meta, [key]: part };
  }
  return { ...event, context, result, meta };
}

// ---------------------------------------------------------------- orders

function keyOrderIn(map: JsonMap): KeyOrder | null {
  const order = map[KEY];
  // Written by withKeyOrders; whatever a client sends under this name is taken away there.
  return typeof order === 'string' || Array.isArray(order) ? (order as unknown as KeyOrder) : null;
}

/** Null where all maps come back in their order by themselves. */
export function orderOf(parts: readonly Json[]): KeyOrder | null {
  const orders = new Orders();
  for (const part of parts) orders.visit(part);
  if (orders.lost.length === 0) return null;
  return orders.isAmbiguous ? JSON.stringify(parts) : orders.lost;
}

export function restored(parts: readonly Json[], order: KeyOrder): readonly Json[] {
  // The text was written by orderOf from JSON.
  if (typeof order === 'string') return JSON.parse(order) as readonly Json[];
  const bySet = new Map(order.map((keys) => [setOf(keys), keys]));
  return parts.map((part) => rebuilt(part, bySet));
}

class Orders {
  /** Orders that jsonb does not keep. */
  readonly lost: (readonly string[])[] = [];
  isAmbiguous = false;
  /** Orders met so far, and the one order of each set of keys. */
  readonly #met = new Set<string>();
  readonly #bySet = new Map<string, string>();

  visit(value: Json): void {
    if (typeof value !== 'object' || value === null) return;
    if (Array.isArray(value)) {
      for (const each of value) this.visit(each);
      return;
    }
    const map = value as JsonMap;
    const keys = Object.keys(map);
    if (keys.length > 1) this.#meet(keys);
    for (const key of keys) this.visit(map[key] ?? null);
  }

  #meet(keys: readonly string[]): void {
    const order = keys.join('\0');
    if (this.#met.has(order)) return;
    this.#met.add(order);
    const set = setOf(keys);
    if (this.#bySet.has(set)) this.isAmbiguous = true;
    this.#bySet.set(set, order);
    if (!isKept(keys)) this.lost.push(keys);
  }
}

function setOf(keys: readonly string[]): string {
  return [...keys].sort().join('\0');
}

/** jsonb sorts keys by their length in bytes, then by their bytes. */
function isKept(keys: readonly string[]): boolean {
  for (let index = 1; index < keys.length; index += 1) {
    const [before = '', after = ''] = [keys[index - 1], keys[index]];
    const difference = Buffer.byteLength(before) - Buffer.byteLength(after);
    if (difference > 0 || (difference === 0 && Buffer.compare(Buffer.from(before), Buffer.from(after)) > 0))
      return false;
  }
  return true;
}

function rebuilt(value: Json, bySet: ReadonlyMap<string, readonly string[]>): Json {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => rebuilt(each, bySet));
  const map = value as JsonMap;
  const keys = Object.keys(map);
  const ordered = keys.length > 1 ? (bySet.get(setOf(keys)) ?? keys) : keys;
  return Object.fromEntries(ordered.map((key) => [key, rebuilt(map[key] ?? null, bySet)]));
}
