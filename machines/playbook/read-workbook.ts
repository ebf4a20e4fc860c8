/** Reads `workbook` actions and replaces references to them by the action's tool (language 2.5). */

import { present } from '../known.ts';
import { shown } from './names.ts';
import { firstMember, given, isListPlace, isMapPlace, items, type MapPlace, member, textOf } from './place.ts';
import { readTool } from './read-tool.ts';
import { DOCUMENT, type Report, type Subject, workbookSubject } from './report.ts';
import { mapNode, type YamlEntry } from './yaml-node.ts';

export interface Workbook {
  /** The tool of each action by name. */
  readonly tools: Map<string, MapPlace>;
  /** Input entries that references may still copy: a short text must not become a large document. */
  entriesLeft: number;
}

const ENTRIES_MAX = 200_000;

const NAMING = new Set(['kind', 'action', 'task', 'name']);
const SHAPE = "tool must be a map with 'kind' or a non-empty list of tasks";

/** The tools of all actions by name. Each is checked here once, also when nothing refers to it. */
export function readWorkbook(report: Report, root: MapPlace): Workbook {
  const actions = new Map<string, MapPlace>();
  const workbook = { tools: actions, entriesLeft: ENTRIES_MAX };
  const place = given(root, 'workbook');
  if (place === null) return workbook;
  if (!isListPlace(place)) {
    report.error('workbook_ref', DOCUMENT, place, 'workbook must be a list of {name, tool}');
    return workbook;
  }
  for (const item of items(place)) {
    const name = isMapPlace(item) ? textOf(member(item, 'name')) : null;
    if (!isMapPlace(item) || name === null || name === '') {
      report.error('workbook_ref', DOCUMENT, item, 'a workbook action needs a name');
      continue;
    }
    if (actions.has(name)) {
      report.error('workbook_ref', workbookSubject(name), present(member(item, 'name')), 'duplicate action name');
    }
    const tool = readAction(report, workbookSubject(name), item, name);
    if (tool) actions.set(name, tool);
  }
  return workbook;
}

function readAction(report: Report, subject: Subject, action: MapPlace, name: string): MapPlace | null {
  const tool = given(action, 'tool');
  if (tool === null) {
    report.error('tool_missing', subject, action, "Missing 'tool' field (a tool is required)");
    return null;
  }
  if (!isMapPlace(tool)) {
    report.error('tool_shape', subject, tool, SHAPE);
    return null;
  }
  if (textOf(member(tool, 'kind')) === 'workbook') {
    report.error('workbook_ref', subject, tool, 'an action cannot refer to a workbook action');
    return tool;
  }
  const label = `${name}_task`;
  readTool(report, { place: tool, subject, label, labels: new Set([label]), stepInput: {}, complete: false });
  return tool;
}

/** The tool a reference stands for: the action's, with the fields of the reference over it and the inputs merged. */
export function resolveReference(
  report: Report,
  subject: Subject,
  reference: MapPlace,
  workbook: Workbook,
): MapPlace | null {
  const namePlace = firstMember(reference, ['action', 'task', 'name']);
  const name = textOf(namePlace);
  const action = name === null ? undefined : workbook.tools.get(name);
  if (action === undefined || textOf(member(action, 'kind')) === 'workbook') {
    const available = [...workbook.tools.keys()].join(', ');
    const text =
      name === null
        ? `workbook reference without a name; available: ${available}`
        : `unknown workbook action '${shown(name)}'; available: ${available}`;
    report.error('workbook_ref', subject, namePlace ?? reference, text);
    return null;
  }
  workbook.entriesLeft -= [...INPUTS].reduce((sum, key) => sum + sizeOf(entryOf(action, key)), 1);
  if (workbook.entriesLeft < 0) {
    report.error('yaml_syntax', DOCUMENT, reference, 'workbook references expand to too large a document');
    return null;
  }
  const own = reference.node.entries.filter(({ key }) => !NAMING.has(key) && !INPUTS.has(key));
  const kept = action.node.entries.filter(({ key }) => !INPUTS.has(key));
  const entries = [...kept, ...own, ...mergedInputs(action, reference)];
  return { ...reference, node: mapNode(reference.node.at, entries) };
}

const INPUTS = new Set(['with', 'args', 'input']);

/** Input maps are merged key by key; anything else replaces. */
function mergedInputs(action: MapPlace, reference: MapPlace): YamlEntry[] {
  return [...INPUTS].flatMap((key) => {
    const base = entryOf(action, key);
    const own = entryOf(reference, key);
    if (!base || !own) return own ?? base ?? [];
    if (base.value.kind !== 'map' || own.value.kind !== 'map') return own;
    return { ...own, value: mapNode(own.value.at, [...base.value.entries, ...own.value.entries]) };
  });
}

function sizeOf(entry: YamlEntry | undefined): number {
  return entry?.value.kind === 'map' ? entry.value.entries.length : 0;
}

function entryOf(place: MapPlace, key: string): YamlEntry | undefined {
  return place.node.entries.find((entry) => entry.key === key);
}
