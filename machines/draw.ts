/** Charts as text: Mermaid, SCXML, a plain tree, and the page of a chart in the docs. All of them tell the whole outline. */
import type { Chart } from './index.ts';
import type { JsonMap } from './json.ts';
import { known } from './known.ts';
import { type Outline, type OutlineState, type OutlineTransition, outlineOf } from './outline.ts';

/** The chart as a tree of states with their transitions: JSON, without code. */
export function definitionOf({ machine }: Pick<Chart, 'machine'>): JsonMap {
  const outline = outlineOf(machine);
  const nodeOf = (state: OutlineState): JsonMap => ({
    id: state.id,
    key: state.name,
    type: state.kind,
    description: state.description,
    tags: state.tags,
    initial: state.initial,
    entry: state.entry,
    exit: state.exit,
    transitions: outline.transitions
      .filter((each) => each.from === state.id)
      .map(({ id, event, to, guard, actions, description }) => ({
        id,
        event,
        target: to,
        guard,
        actions,
        description,
      })),
    states: statesIn(outline, state.id).map(nodeOf),
  });
  return {
    id: outline.name,
    description: outline.description,
    initial: outline.initial,
    states: statesIn(outline, null).map(nodeOf),
  };
}

/** The config the chart was made from, as JSON: what other tools for charts take. */
export function configOf({ machine }: Pick<Chart, 'machine'>): JsonMap {
  // JSON text that was made a moment ago parses to JSON; a config of a chart is a map.
  return JSON.parse(JSON.stringify(machine.config)) as JsonMap;
}

/** A `stateDiagram-v2` of Mermaid. Transitions between the same states share one arrow. */
export function mermaidOf({ machine }: Pick<Chart, 'machine'>): string {
  const outline = outlineOf(machine);
  const lines = ['stateDiagram-v2'];
  const block = (parent: string | null, indent: string): void => {
    const inside = statesIn(outline, parent);
    const first = parent === null ? outline.initial : known(outline.states.find(({ id }) => id === parent)).initial;
    if (first !== null) lines.push(`${indent}[*] --> ${nameInMermaid(first)}`);
    for (const state of inside) {
      const name = nameInMermaid(state.id);
      const children = statesIn(outline, state.id);
      lines.push(`${indent}state "${state.name}" as ${name}`);
      if (children.length === 0) continue;
      lines.push(`${indent}state ${name} {`);
      block(state.id, `${indent}  `);
      lines.push(`${indent}}`);
    }
  };
  block(null, '  ');
  const arrows = new Map<string, string[]>();
  for (const each of outline.transitions) {
    const arrow = `${nameInMermaid(each.from)} --> ${nameInMermaid(each.to ?? each.from)}`;
    arrows.set(arrow, [...(arrows.get(arrow) ?? []), labelOf(each)]);
  }
  for (const [arrow, labels] of arrows) lines.push(`  ${arrow}: ${labels.join('<br/>')}`);
  for (const state of outline.states) if (state.kind === 'final') lines.push(`  ${nameInMermaid(state.id)} --> [*]`);
  return `${lines.join('\n')}\n`;
}

/** SCXML as the W3C recommendation has it; actions and descriptions stand in a namespace of their own. */
export function scxmlOf({ machine, version }: Pick<Chart, 'machine' | 'version'>): string {
  const outline = outlineOf(machine);
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<scxml xmlns="http://www.w3.org/2005/07/scxml" xmlns:callboard="urn:callboard:chart" version="1.0" name="${xml(outline.name)}" initial="${xml(outline.initial)}" callboard:version="${version}" callboard:description="${xml(outline.description)}">`,
  ];
  const element = (state: OutlineState, indent: string): void => {
    const tag = state.kind === 'final' || state.kind === 'parallel' || state.kind === 'history' ? state.kind : 'state';
    const initial = state.initial === null ? '' : ` initial="${xml(state.initial)}"`;
    const about = ` callboard:description="${xml(state.description)}" callboard:tags="${xml(state.tags.join(' '))}"`;
    lines.push(`${indent}<${tag} id="${xml(state.id)}"${initial}${about}>`);
    for (const [edge, actions] of [['onentry', state.entry] as const, ['onexit', state.exit] as const]) {
      if (actions.length > 0) lines.push(`${indent}  <${edge}>${actions.map(actionInScxml).join('')}</${edge}>`);
    }
    for (const each of outline.transitions)
      if (each.from === state.id) lines.push(transitionInScxml(each, `${indent}  `));
    for (const child of statesIn(outline, state.id)) element(child, `${indent}  `);
    lines.push(`${indent}</${tag}>`);
  };
  for (const state of statesIn(outline, null)) element(state, '  ');
  lines.push('</scxml>');
  return `${lines.join('\n')}\n`;
}

/** The page of a chart in `docs/machines`. */
export function pageOf(chart: Chart): string {
  const { states, transitions, description } = outlineOf(chart.machine);
  const stateRows = states.map(
    (state) => `| \`${state.id}\` | ${cell(state.description)} | ${state.tags.map((tag) => `\`${tag}\``).join(' ')} |`,
  );
  const transitionRows = transitions.map(
    ({ from, event, guard, actions, to, description: says }) =>
      `| \`${from}\` | \`${event}\` | ${code(guard)} | ${to === null ? '(stays)' : code(to)} | ${actions.map(code).join(' ')} | ${cell(says ?? '')} |`,
  );
  return `# The chart \`${chart.name}\`

Generated by \`npm run generate\` from \`machines/${chart.name}/machine.ts\` (version ${chart.version}). ${description}

\`\`\`mermaid
${mermaidOf(chart).trimEnd()}
\`\`\`

## States

| State | Meaning | Tags |
|---|---|---|
${stateRows.join('\n')}

## Transitions

For one state and event the rows are tried from top to bottom; the first whose guard holds is taken. Events that a state
does not list are looked up in the state around it, and change nothing when nobody lists them.

| From | Event | Guard | To | Actions | Why |
|---|---|---|---|---|---|
${transitionRows.join('\n')}
`;
}

export function labelOf({ event, guard }: Pick<OutlineTransition, 'event' | 'guard'>): string {
  return guard === null ? event : `${event} [${guard}]`;
}

function statesIn(outline: Outline, parent: string | null): readonly OutlineState[] {
  return outline.states.filter((state) => state.parent === parent);
}

function nameInMermaid(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9]/g, '_');
}

function transitionInScxml({ event, guard, to, actions, description }: OutlineTransition, indent: string): string {
  const cond = guard === null ? '' : ` cond="${xml(guard)}"`;
  const target = to === null ? '' : ` target="${xml(to)}"`;
  const about = description === null ? '' : ` callboard:description="${xml(description)}"`;
  const head = `${indent}<transition event="${xml(event)}"${cond}${target}${about}`;
  return actions.length === 0 ? `${head}/>` : `${head}>${actions.map(actionInScxml).join('')}</transition>`;
}

function actionInScxml(name: string): string {
  return `<callboard:action name="${xml(name)}"/>`;
}

function xml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

function code(text: string | null): string {
  return text === null ? '' : `\`${text}\``;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
