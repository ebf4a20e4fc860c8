/**
 * The OpenAPI document as a page to read and print: plain HTML and one style sheet, no script. Everything shown is
 * escaped; schemas are shown as nested lists of fields.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';

export const READING_STYLE = `:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #2563eb; }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.55 system-ui, sans-serif; display: grid; grid-template-columns: 20rem minmax(0, 1fr); }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; border-right: 1px solid var(--line); font-size: 13px; }
nav ul { list-style: none; margin: 0 0 1rem; padding: 0; }
nav a { color: inherit; text-decoration: none; display: block; padding: .1rem 0; overflow-wrap: anywhere; }
main { padding: 1.5rem 2.5rem; max-width: 64rem; }
article { border-top: 1px solid var(--line); padding: 1rem 0; }
h3 { font: 600 15px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.verb { color: var(--accent); display: inline-block; min-width: 4.5em; }
.role { font-size: 12px; opacity: .75; }
ul.fields { list-style: none; padding-left: 1rem; border-left: 2px solid var(--line); }
code, pre { font: 13px/1.5 ui-monospace, monospace; }
pre { background: var(--soft); padding: .75rem; overflow: auto; border-radius: 6px; }
.required { color: #dc2626; font-size: 12px; }
.type { opacity: .7; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; } }
@media print { nav { display: none; } body { display: block; } }
`;

const DEPTH_MAX = 6;

export function readingView(document: JsonMap): string {
  const info = mapAt(document, 'info');
  const groups = Map.groupBy(operationsOf(document), (operation) => operation.tag);
  const title = `${textAt(info, 'title')} ${textAt(info, 'version')}`;
  const contents = [...groups].map(
    ([tag, all]) => `<strong>${escapeHtml(tag)}</strong><ul>${all.map(contentsLine).join('')}</ul>`,
  );
  const sections = [...groups].map(
    ([tag, all]) => `<section><h2>${escapeHtml(tag)}</h2>${all.map(articleOf).join('')}</section>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<link rel="stylesheet" href="/redoc/style.css">
</head>
<body>
<nav>${contents.join('')}</nav>
<main><h1>${escapeHtml(title)}</h1><p>${escapeHtml(textAt(info, 'summary'))}. <a href="/docs">Try it out</a>, or take the <a href="/openapi.json">document</a>.</p>${sections.join('')}</main>
</body>
</html>
`;
}

interface Operation {
  readonly verb: string;
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly body: JsonMap;
}

function operationsOf(document: JsonMap): readonly Operation[] {
  return Object.entries(mapAt(document, 'paths')).flatMap(([path, item]) =>
    Object.entries(isMap(item) ? item : {}).flatMap(([verb, body]) => {
      if (!isMap(body)) return [];
      const tags = body['tags'];
      const tag = Array.isArray(tags) && typeof tags[0] === 'string' ? tags[0] : '';
      return [{ verb: verb.toUpperCase(), path, id: textAt(body, 'operationId'), tag, body }];
    }),
  );
}

function contentsLine({ id, verb, path }: Operation): string {
  return `<li><a href="#${escapeHtml(id)}"><span class="verb">${verb}</span> ${escapeHtml(path)}</a></li>`;
}

function articleOf({ id, verb, path, body }: Operation): string {
  const roles = body['x-role'];
  const parameters = body['parameters'];
  const request = contentOf(mapAt(body, 'requestBody'));
  const { '200': answer = {}, ...refusals } = mapAt(body, 'responses');
  return [
    `<article id="${escapeHtml(id)}"><h3><span class="verb">${verb}</span> ${escapeHtml(path)}</h3>`,
    `<p>${escapeHtml(textAt(body, 'summary'))} <span class="role">${escapeHtml(Array.isArray(roles) ? roles.join(', ') : '')}</span></p>`,
    Array.isArray(parameters)
      ? `<h4>Parameters</h4><ul class="fields">${parameters.map(parameterLine).join('')}</ul>`
      : '',
    request === null ? '' : `<h4>Request</h4>${contentView(request)}`,
    `<h4>Answer</h4>${contentView(contentOf(isMap(answer) ? answer : {}) ?? {})}`,
    `<h4>Refusals</h4><ul class="fields">${Object.entries(refusals).map(refusalLine).join('')}</ul></article>`,
  ].join('');
}

function contentOf(holder: JsonMap): JsonMap | null {
  const [content] = Object.values(mapAt(holder, 'content'));
  return isMap(content) ? content : null;
}

function contentView(content: JsonMap): string {
  const example = content['example'];
  const shown = example === undefined ? '' : `<pre>${escapeHtml(JSON.stringify(example, null, 2))}</pre>`;
  return `${schemaView(mapAt(content, 'schema'), 0)}${shown}`;
}

function parameterLine(parameter: Json): string {
  if (!isMap(parameter)) return '';
  return fieldLine(
    `${textAt(parameter, 'name')} (${textAt(parameter, 'in')})`,
    mapAt(parameter, 'schema'),
    parameter['required'] === true,
    DEPTH_MAX,
  );
}

function refusalLine([status, refusal]: readonly [string, Json]): string {
  return `<li><code>${escapeHtml(status)}</code> ${escapeHtml(isMap(refusal) ? textAt(refusal, 'description') : '')}</li>`;
}

function schemaView(schema: JsonMap, depth: number): string {
  const items = mapAt(schema, 'items');
  if (schema['type'] === 'array' && Object.keys(items).length > 0) {
    return `<p class="type">list of</p>${schemaView(items, depth)}`;
  }
  const properties = Object.entries(mapAt(schema, 'properties'));
  if (properties.length === 0 || depth >= DEPTH_MAX) return `<p class="type">${escapeHtml(typeOf(schema))}</p>`;
  const required = schema['required'];
  const isRequired = (name: string) => Array.isArray(required) && required.includes(name);
  const lines = properties.map(([name, field]) => fieldLine(name, isMap(field) ? field : {}, isRequired(name), depth));
  return `<ul class="fields">${lines.join('')}</ul>`;
}

function fieldLine(name: string, schema: JsonMap, required: boolean, depth: number): string {
  const inner = innerOf(schema);
  const nested = inner === null ? '' : schemaView(inner, depth + 1);
  const mark = required ? ' <span class="required">required</span>' : '';
  return `<li><code>${escapeHtml(name)}</code> <span class="type">${escapeHtml(typeOf(schema))}</span>${mark}${nested}</li>`;
}

/** The schema below a field that has fields of its own. */
function innerOf(schema: JsonMap): JsonMap | null {
  if (Object.keys(mapAt(schema, 'properties')).length > 0) return schema;
  const items = mapAt(schema, 'items');
  if (Object.keys(mapAt(items, 'properties')).length > 0) return items;
  const choices = schema['anyOf'];
  const choice = Array.isArray(choices) ? choices.find((each) => isMap(each) && innerOf(each) !== null) : undefined;
  return isMap(choice) ? innerOf(choice) : null;
}

function typeOf(schema: JsonMap): string {
  const choices = schema['anyOf'];
  if (Array.isArray(choices)) return choices.map((each) => (isMap(each) ? typeOf(each) : '')).join(' or ');
  if (schema['const'] !== undefined) return JSON.stringify(schema['const']);
  if (Array.isArray(schema['enum'])) return schema['enum'].map((each) => JSON.stringify(each)).join(' | ');
  const type = typeof schema['type'] === 'string' ? schema['type'] : 'any JSON';
  const bounds = [
    ['from', schema['minimum'] ?? schema['minLength']],
    ['to', schema['maximum'] ?? schema['maxLength']],
  ].flatMap(([word, bound]) => (typeof bound === 'number' ? [`${word} ${bound}`] : []));
  return [type, ...bounds].join(' ');
}

function mapAt(from: JsonMap, key: string): JsonMap {
  const value = from[key];
  return isMap(value) ? value : {};
}

function textAt(from: JsonMap, key: string): string {
  const value = from[key];
  return typeof value === 'string' ? value : '';
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
