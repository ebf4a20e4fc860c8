/**
 * The metrics of a process (api 7.1): a registry filled from one table, behind the `Meter` port of the actors. A name
 * or label that is not in the table never throws on a hot path: it is counted, and left out.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry, Summary } from 'prom-client';
import type { Meter } from '../actors/ports.ts';
import { METRICS, type Metric, type MetricName, SECONDS } from './metrics-table.ts';

type Labels = Readonly<Record<string, string>>;

export interface Metrics extends Meter {
  readonly contentType: string;
  /** The text exposition, version 0.0.4. `before` run first: gauges that are read, not counted. */
  exposition(): Promise<string>;
  /** Called before each exposition; sets gauges of the moment. */
  beforeScrape(refresh: () => void | Promise<void>): void;
}

type Instrument = Counter | Gauge | Histogram | Summary;

export function createMeter(options: { readonly processMetrics?: boolean } = {}): Metrics {
  const registry = new Registry();
  const refreshes: (() => void | Promise<void>)[] = [];
  const instruments = new Map<string, { readonly instrument: Instrument; readonly labels: readonly string[] }>();
  for (const [name, metric] of Object.entries<Metric>(METRICS)) {
    instruments.set(name, { instrument: instrumentOf(name, metric, registry), labels: metric.labels ?? [] });
  }
  if (options.processMetrics === true) collectDefaultMetrics({ register: registry });

  function find(name: string) {
    const found = instruments.get(name);
    if (found !== undefined) return found;
    const undeclared: MetricName = 'svc_metrics_undeclared_total';
    const { instrument } = instruments.get(undeclared)!;
    if (instrument instanceof Counter) instrument.inc();
    return null;
  }

  return {
    contentType: registry.contentType,
    count(name, labels, by = 1) {
      const found = find(name);
      if (found?.instrument instanceof Counter) found.instrument.inc(declared(labels, found.labels), by);
    },
    observe(name, value, labels) {
      const found = find(name);
      if (found === null) return;
      const { instrument } = found;
      if (instrument instanceof Histogram || instrument instanceof Summary) {
        instrument.observe(declared(labels, found.labels), value);
      }
    },
    gauge(name, value, labels) {
      const found = find(name);
      if (found?.instrument instanceof Gauge) found.instrument.set(declared(labels, found.labels), value);
    },
    beforeScrape(refresh) {
      refreshes.push(refresh);
    },
    async exposition() {
      await Promise.all(refreshes.map((refresh) => refresh()));
      return registry.metrics();
    },
  };
}

function instrumentOf(name: string, metric: Metric, registry: Registry): Instrument {
  const base = { name, help: metric.help, labelNames: [...(metric.labels ?? [])], registers: [registry] };
  switch (metric.type) {
    case 'counter':
      return new Counter(base);
    case 'gauge':
      return new Gauge(base);
    case 'histogram':
      return new Histogram({ ...base, buckets: [...(metric.buckets ?? SECONDS)] });
    case 'summary':
      return new Summary({ ...base, percentiles: [] });
    default:
      return metric.type satisfies never;
  }
}

const NONE: Labels = {};

function declared(given: Labels | undefined, names: readonly string[]): Labels {
  if (given === undefined || names.length === 0) return NONE;
  for (const name in given) {
    if (!names.includes(name)) return Object.fromEntries(names.map((each) => [each, given[each] ?? '']));
  }
  return given;
}
