import { afterEach, beforeEach, expect, test } from 'vitest';
import { createExporter, QUEUE_MAX } from '../../src/telemetry/exporter.ts';
import type { SpanRecord } from '../../src/telemetry/otlp.ts';
import { createTracing, noTracing, readHeaders } from '../../src/telemetry/tracer.ts';
import { type Collector, startCollector } from './collector.ts';

let collector: Collector;
const dropped: { count: number; reason: string }[] = [];

beforeEach(async () => {
  collector = await startCollector();
  dropped.length = 0;
});
afterEach(() => collector.close());

function exporter(endpoint = collector.url) {
  return createExporter({
    endpoint,
    headers: { 'x-key': 'k' },
    resource: { 'service.name': 'test' },
    onDropped: (count, reason) => dropped.push({ count, reason }),
  });
}

const span = (name: string, more: Partial<SpanRecord> = {}): SpanRecord => ({
  name,
  traceId: '1'.repeat(32),
  spanId: '2'.repeat(16),
  parentSpanId: null,
  startMs: 1_795_257_302_113.25,
  endMs: 1_795_257_302_114.5,
  attributes: { text: 'a', whole: 7, part: 0.5, yes: true },
  ...more,
});

test('a span is sent in the form of OTLP, with the headers that were set', async () => {
  const sut = exporter();
  sut.add(span('turn', { events: [{ name: 'claimed', atMs: 1_795_257_302_114 }], failed: true, kind: 'client' }));
  await sut.close();
  expect(collector.requests).toMatchObject([{ path: '/v1/traces', headers: { 'x-key': 'k' } }]);
  expect(collector.spans).toEqual([
    {
      service: 'test',
      name: 'turn',
      kind: 3,
      traceId: '1'.repeat(32),
      spanId: '2'.repeat(16),
      startTimeUnixNano: '1795257302113250000',
      endTimeUnixNano: '1795257302114500000',
      attributes: [
        { key: 'text', value: { stringValue: 'a' } },
        { key: 'whole', value: { intValue: '7' } },
        { key: 'part', value: { doubleValue: 0.5 } },
        { key: 'yes', value: { boolValue: true } },
      ],
      events: [{ name: 'claimed', timeUnixNano: '1795257302114000000', attributes: [] }],
      status: { code: 2 },
    },
  ]);
});

test('an endpoint that names the path of traces is used as it is', async () => {
  const sut = exporter(`${collector.url}/prefix/v1/traces`);
  sut.add(span('turn'));
  await sut.close();
  expect(collector.requests[0]?.path).toBe('/prefix/v1/traces');
});

test('the queue holds 2,048 spans; what comes on top is dropped and counted', async () => {
  const sut = exporter();
  // Nothing is sent before this function gives the thread away, except the first batch that was full.
  for (let index = 0; index < QUEUE_MAX + 1_000; index += 1) sut.add(span(`s${index}`));
  await sut.close();
  const lost = dropped.reduce((sum, { count }) => sum + count, 0);
  expect(lost).toBeGreaterThan(0);
  expect(dropped.every(({ reason }) => reason === 'queue_full')).toBe(true);
  expect(collector.spans).toHaveLength(QUEUE_MAX + 1_000 - lost);
});

test('a collector that refuses or is away costs spans and nothing else', async () => {
  collector.status = 503;
  const refused = exporter();
  refused.add(span('a'));
  await refused.close();
  const away = exporter('http://127.0.0.1:1');
  away.add(span('b'));
  await away.close();
  expect(dropped).toEqual([
    { count: 1, reason: 'export_failed' },
    { count: 1, reason: 'export_failed' },
  ]);
});

test('after its end it takes nothing', async () => {
  const sut = exporter();
  await sut.close();
  await sut.close();
  sut.add(span('late'));
  expect(dropped).toHaveLength(1);
});

test('without an endpoint there is no tracer, and one that is off does nothing', async () => {
  const meter = { count: () => expect.unreachable() };
  const config = { otlpEndpoint: null, otlpHeaders: null, traceSampleRatio: 1 };
  expect(createTracing(config, { service: 's', version: '1', meter })).toBe(noTracing);
  noTracing.record(span('never'));
  expect(noTracing.isSampled('f'.repeat(32))).toBe(false);
  await noTracing.close();
});

test('headers are read as a comma list and decoded where they can be', () => {
  expect(readHeaders('Authorization=Basic%20YQ==, x-b = c ,broken,=d,e=')).toEqual({
    authorization: 'Basic YQ==',
    'x-b': 'c',
  });
  expect(readHeaders('a=%zz')).toEqual({ a: '%zz' });
});
