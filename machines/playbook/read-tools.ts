/** Reads the `tool` of a step in its shapes (language 4.2): one tool, or a pipeline of labelled tasks. */
import type { JsonMap } from '../json.ts';
import type { Task } from './document.ts';
import { isReserved, SHADOWING_NAMES, shown } from './names.ts';
import {
  isListPlace,
  isMapPlace,
  items,
  type ListPlace,
  type MapPlace,
  member,
  members,
  type Place,
  textOf,
} from './place.ts';
import { readTool } from './read-tool.ts';
import { resolveReference, type Workbook } from './read-workbook.ts';
import { type Report, type Subject, taskSubject } from './report.ts';

export const TASKS_MAX = 200;
const SHAPE = "tool must be a map with 'kind' or a non-empty list of tasks";

export interface ToolsSource {
  readonly step: MapPlace;
  readonly name: string;
  readonly subject: Subject;
  readonly stepInput: JsonMap;
  readonly workbook: Workbook;
}

/** The tasks of a step, or null when none could be read. */
export function readTools(
  report: Report,
  source: ToolsSource,
): { readonly pipeline: boolean; readonly tasks: readonly Task[] } | null {
  const { step, subject } = source;
  const place = member(step, 'tool');
  if (place === null || place.node.json === null) {
    report.error('tool_missing', subject, step, "Missing 'tool' field (a tool is required)");
    return null;
  }
  if (isMapPlace(place) && member(place, 'kind')) {
    const label = `${source.name}_task`;
    const task = readLabelled(report, source, { label, place }, subject, new Set([label]));
    return task && { pipeline: false, tasks: [task] };
  }
  if (!isListPlace(place) || place.node.items.length === 0) {
    report.error('tool_shape', subject, place, SHAPE);
    return null;
  }
  if (place.node.items.length > TASKS_MAX) {
    report.error('yaml_syntax', subject, place, `tool has more than ${TASKS_MAX} tasks`);
    return null;
  }
  const found = readLabels(report, source, place);
  const labels = new Set(found.map(({ label }) => label));
  const tasks = found.flatMap((item) => {
    return readLabelled(report, source, item, taskSubject(source.name, item.label), labels) ?? [];
  });
  return tasks.length > 0 ? { pipeline: true, tasks } : null;
}

interface Labelled {
  readonly label: string;
  readonly place: MapPlace;
}

function readLabels(report: Report, source: ToolsSource, list: ListPlace): Labelled[] {
  const seen = new Set<string>();
  return items(list).flatMap((item, index) => {
    const labelled = readLabel(report, source, item, index);
    if (labelled === null) return [];
    const { label } = labelled;
    const subject = taskSubject(source.name, label);
    const place = member(labelled.place, 'name') ?? item;
    if (seen.has(label)) report.error('task_label', subject, place, `duplicate task label '${shown(label)}'`);
    else if (isReserved(label)) {
      report.error('task_label', subject, place, `duplicate task label '${label}': the name is reserved`);
    } else if (SHADOWING_NAMES.has(label)) {
      report.warn('shadowed_name', subject, place, `'${label}' is hidden by the engine's own name`);
    }
    seen.add(label);
    return [labelled];
  });
}

function readLabel(report: Report, source: ToolsSource, item: Place, index: number): Labelled | null {
  const shape = (place: Place): null => {
    report.error('tool_shape', source.subject, place, SHAPE);
    return null;
  };
  if (!isMapPlace(item)) return shape(item);
  const positional = `task_${index}`;
  if (member(item, 'kind')) {
    const name = member(item, 'name');
    if (name === null || name.node.json === null) return { label: positional, place: item };
    const label = textOf(name);
    if (label !== null && label !== '') return { label, place: item };
    report.error('tool_field', taskSubject(source.name, positional), name, "'name' must be a string");
    return { label: positional, place: item };
  }
  const [only, ...others] = members(item);
  if (only === undefined || others.length > 0 || !isMapPlace(only.place)) return shape(item);
  if (!member(only.place, 'kind')) return shape(only.place);
  return { label: only.key, place: only.place };
}

function readLabelled(
  report: Report,
  source: ToolsSource,
  { label, place }: Labelled,
  subject: Subject,
  labels: ReadonlySet<string>,
): Task | null {
  const reference = textOf(member(place, 'kind')) === 'workbook';
  const tool = reference ? resolveReference(report, subject, place, source.workbook) : place;
  if (tool === null) return null;
  return readTool(report, { place: tool, subject, label, labels, stepInput: source.stepInput, complete: true });
}
