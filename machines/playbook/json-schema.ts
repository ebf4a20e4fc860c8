/**
 * The document as JSON Schema (draft 2020-12), for editors that complete and check while one types. Kinds and their fields
 * come from the same table that registration checks with; what a schema cannot say (targets that exist, templates that
 * parse) remains registration's.
 */
import { isMap, type Json, type JsonMap } from '../json.ts';
import { fieldWords, type Place, placeWords } from './schema-words.ts';
import { type FieldType, KNOWN_KINDS, toolSpecOf } from './tool-fields.ts';

const TEMPLATE: JsonMap = { type: 'string', pattern: '\\{\\{|\\{%' };
const TEXT: JsonMap = { type: 'string' };
const MAP: JsonMap = { type: 'object' };
const CONDITION: JsonMap = { type: ['string', 'boolean'] };
const SECONDS: JsonMap = { anyOf: [{ type: 'number', minimum: 0 }, { type: 'string' }] };
const NAME: JsonMap = { type: 'string', minLength: 1, maxLength: 255 };

export function playbookSchema(): JsonMap {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Callboard playbook',
    type: 'object',
    required: ['kind', 'workflow'],
    properties: told('document', {
      apiVersion: { type: 'string', minLength: 1, default: 'callboard/v2' },
      kind: { enum: ['Playbook', 'Agent'] },
      metadata: metadata(),
      executor: executor(),
      workload: { type: ['object', 'null'] },
      keychain: { type: 'array', items: reference('keychainEntry') },
      workbook: { type: 'array', items: reference('action') },
      workflow: { type: 'array', minItems: 1, maxItems: 1000, items: reference('step') },
      vars: false,
    }),
    $defs: {
      step: step(),
      task: task(),
      labelled: labelled(),
      tool: {
        anyOf: [
          reference('task'),
          { type: 'array', minItems: 1, maxItems: 200, items: { anyOf: [reference('task'), reference('labelled')] } },
        ],
      },
      next: next(),
      arc: arc(),
      rule: rule(),
      loop: loop(),
      output: output(),
      assignments: assignments(),
      action: action(),
      keychainEntry: keychainEntry(),
    },
  };
}

/** The same properties, each with its sentence. */
function told(place: Place, properties: JsonMap): JsonMap {
  return Object.fromEntries(
    Object.entries(properties).map(([key, schema]) => [key, saying(schema, placeWords(place, key))]),
  );
}

function saying(schema: Json, words: string | undefined): Json {
  return isMap(schema) && words !== undefined ? { ...schema, description: words } : schema;
}

function reference(name: string): JsonMap {
  return { $ref: `#/$defs/${name}` };
}

function metadata(): JsonMap {
  return {
    type: 'object',
    properties: told('metadata', {
      name: TEXT,
      path: TEXT,
      description: {},
      tags: strings(),
      capabilities: strings(),
      agent: { type: 'boolean' },
      exposed_in_ui: { type: 'boolean' },
      exposes_as_mcp: { type: 'boolean' },
      terminal: {
        type: 'object',
        properties: told('terminal', {
          visible: { type: 'boolean' },
          workspace: TEXT,
          scopes: strings(),
          capabilities: strings(),
        }),
      },
    }),
  };
}

function strings(): JsonMap {
  return { anyOf: [TEXT, { type: 'array', items: TEXT }] };
}

function executor(): JsonMap {
  const spec = told('executorSpec', {
    entry_step: NAME,
    final_step: NAME,
    no_next_is_error: { type: 'boolean' },
    policy: {},
  });
  return {
    type: 'object',
    properties: told('executor', {
      profile: {},
      version: {},
      requires: {},
      spec: { type: 'object', properties: spec },
    }),
  };
}

function step(): JsonMap {
  return {
    type: 'object',
    required: ['step', 'tool'],
    properties: told('step', {
      step: NAME,
      desc: TEXT,
      tool: reference('tool'),
      input: MAP,
      loop: reference('loop'),
      set: reference('assignments'),
      next: reference('next'),
      output: reference('output'),
      output_select: {},
      spec: {
        type: 'object',
        properties: told('stepSpec', {
          timeout: SECONDS,
          next_mode: { enum: ['exclusive', 'inclusive'] },
          policy: {
            type: 'object',
            properties: told('stepPolicy', {
              admit: {
                type: 'object',
                required: ['rules'],
                properties: told('admit', { rules: { type: 'array', items: MAP } }),
              },
              failure: {
                type: 'object',
                properties: told('failure', { mode: { enum: ['fail_fast', 'best_effort'] } }),
              },
            }),
          },
        }),
      },
      case: false,
      type: false,
      result: false,
    }),
  };
}

function task(): JsonMap {
  return {
    type: 'object',
    required: ['kind'],
    properties: told('task', {
      kind: { enum: [...KNOWN_KINDS] },
      name: NAME,
      input: MAP,
      auth: { type: ['string', 'object'] },
      set: reference('assignments'),
      timeout: SECONDS,
      output: reference('output'),
      output_select: {},
      spec: {
        type: 'object',
        properties: told('taskSpec', {
          policy: {
            type: 'object',
            properties: told('taskPolicy', {
              on_unmatched: { enum: ['fail', 'continue'] },
              rules: { type: 'array', items: reference('rule') },
            }),
          },
        }),
      },
      eval: false,
    }),
    allOf: KNOWN_KINDS.map(kindClause),
  };
}

/** `if kind is k then …`: its fields with their types, and which of them one needs. */
function kindClause(kind: string): JsonMap {
  const spec = toolSpecOf(kind);
  const properties: { [name: string]: Json } = {};
  for (const [name, field] of Object.entries(spec?.fields ?? {})) {
    for (const spelling of [name, ...field.aliases]) {
      properties[spelling] = saying(typed(field.type), fieldWords(kind, name));
    }
  }
  const aliasesOf = (name: string): readonly string[] => [name, ...(spec?.fields[name]?.aliases ?? [])];
  const needs = (spec?.required ?? []).map((group) => ({
    anyOf: group.flatMap(aliasesOf).map((name) => ({ required: [name] })),
  }));
  return {
    if: { properties: { kind: { const: kind } }, required: ['kind'] },
    // biome-ignore lint/suspicious/noThenProperty: the word of JSON Schema
    then: { properties, ...(needs.length === 0 ? {} : { allOf: needs }) },
  };
}

function typed(type: FieldType): JsonMap {
  switch (type) {
    case 'any':
      return {};
    case 'string':
      return TEXT;
    case 'scalar':
      return { type: ['string', 'number', 'boolean'] };
    case 'number':
      return { anyOf: [{ type: 'number' }, { type: 'string' }] };
    case 'boolean':
      return { anyOf: [{ type: 'boolean' }, TEMPLATE] };
    case 'map':
      return { anyOf: [MAP, TEMPLATE] };
    case 'string or map':
      return { type: ['string', 'object'] };
    case 'string or list':
      return { type: ['string', 'array'] };
    case 'list or map':
      return { anyOf: [{ type: ['array', 'object'] }, TEMPLATE] };
  }
}

function labelled(): JsonMap {
  return { type: 'object', minProperties: 1, maxProperties: 1, additionalProperties: reference('task') };
}

function next(): JsonMap {
  const spec = told('nextSpec', {
    mode: { enum: ['exclusive', 'inclusive'] },
    on_no_match: { enum: ['complete', 'quiet'] },
  });
  return {
    anyOf: [
      {
        type: 'object',
        required: ['arcs'],
        properties: told('next', {
          spec: { type: 'object', properties: spec },
          arcs: { type: 'array', items: reference('arc') },
        }),
      },
      NAME,
      { type: 'array', items: { anyOf: [NAME, reference('arc')] } },
    ],
  };
}

function arc(): JsonMap {
  return {
    type: 'object',
    required: ['step'],
    properties: told('arc', { step: NAME, when: CONDITION, cond: CONDITION, set: reference('assignments'), args: MAP }),
  };
}

function rule(): JsonMap {
  const actions = told('decision', {
    do: { enum: ['continue', 'retry', 'jump', 'break', 'fail'] },
    set: reference('assignments'),
    to: NAME,
    attempts: { type: ['integer', 'string'], minimum: 1 },
    delay: { type: ['number', 'string'], minimum: 0 },
    backoff: { type: 'string' },
    max_delay: { type: ['number', 'string'] },
  });
  return {
    type: 'object',
    properties: told('rule', {
      when: CONDITION,
      // biome-ignore lint/suspicious/noThenProperty: the word of the language
      then: { type: 'object', properties: actions },
      else: { type: ['object', 'null'] },
      expr: false,
    }),
    anyOf: [{ required: ['when'] }, { required: ['else'] }, { required: ['then'] }],
  };
}

function loop(): JsonMap {
  const frame = told('frame', {
    max_rows: { type: 'integer', minimum: 1 },
    row_concurrency: { type: 'integer', minimum: 1 },
    process: { enum: ['row', 'frame'] },
  });
  return {
    type: 'object',
    required: ['iterator'],
    properties: told('loop', {
      in: {},
      cursor: {
        type: 'object',
        required: ['kind', 'claim'],
        properties: told('cursor', { kind: { enum: ['postgres', 'duckdb'] }, auth: {}, claim: TEXT, options: MAP }),
      },
      iterator: NAME,
      spec: {
        type: 'object',
        properties: told('loopSpec', {
          mode: { enum: ['sequential', 'parallel', 'cursor'] },
          max_in_flight: { anyOf: [{ type: 'integer', minimum: 1 }, TEXT] },
          policy: MAP,
          frame: { type: 'object', properties: frame },
        }),
      },
    }),
    oneOf: [{ required: ['in'] }, { required: ['cursor'] }],
  };
}

function output(): JsonMap {
  return {
    type: 'object',
    properties: told('output', {
      select: { type: 'array' },
      inline_max_bytes: { type: 'integer', minimum: 0 },
      preview_max_bytes: { type: 'integer', minimum: 0 },
      store: MAP,
    }),
  };
}

function assignments(): JsonMap {
  return {
    type: 'object',
    propertyNames: { pattern: '^(?:(?:ctx|iter|step)\\.)?[A-Za-z_][A-Za-z0-9_]*(?:\\.[A-Za-z_][A-Za-z0-9_]*)*$' },
  };
}

function action(): JsonMap {
  return {
    type: 'object',
    required: ['name', 'tool'],
    properties: told('action', { name: NAME, tool: reference('task'), desc: TEXT, assert: {} }),
  };
}

function keychainEntry(): JsonMap {
  return {
    type: 'object',
    required: ['name'],
    properties: told('keychainEntry', {
      name: NAME,
      kind: TEXT,
      type: TEXT,
      provider: TEXT,
      scope: { enum: ['global', 'local', 'shared', 'catalog'] },
      auth: {},
      map: MAP,
      auto_renew: { type: 'boolean' },
      ttl_seconds: {},
      endpoint: TEXT,
      method: TEXT,
      headers: MAP,
      data: MAP,
      token: TEXT,
      credential: TEXT,
      ref: TEXT,
    }),
  };
}
