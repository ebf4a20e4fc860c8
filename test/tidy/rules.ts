/**
 * The rules that keep the shape of the tree, each with the sentence a reader of a failure sees. A rule looks at one
 * file and names the places that break it; nothing here knows what the files do. The reasons are in
 * docs/architecture.md.
 */
import { SyntaxKind } from 'typescript/unstable/ast';
import type { Import, Source, Token } from './source.ts';

export interface Rule {
  readonly sentence: string;
  /** The places that break the rule: line and what stands there. */
  readonly broken: (source: Source) => readonly Place[];
}

export interface Place {
  readonly line: number;
  readonly what: string;
}

/** `file:line  what` and the sentence, for each place of each rule. */
export function violations(source: Source): readonly string[] {
  return RULES.flatMap((rule) =>
    rule.broken(source).map((place) => `${source.file}:${place.line}  ${place.what}\n    ${rule.sentence}`),
  );
}

// ---------------------------------------------------------------- who may import whom

/** The files of `from` may import, of the project, only what starts with one of `may`. */
function layer(from: string, may: readonly string[], sentence: string, except: readonly string[] = []): Rule {
  return {
    sentence,
    broken: (source) =>
      !source.file.startsWith(from) || except.includes(source.file)
        ? []
        : importsWhere(
            source,
            (each) => each.relative && ![from, ...may].some((prefix) => each.target.startsWith(prefix)),
          ),
  };
}

/** The files of `from` import nothing that starts with one of `mayNot`. */
function wall(from: string, mayNot: readonly string[], sentence: string, except: readonly string[] = []): Rule {
  return {
    sentence,
    broken: (source) =>
      !source.file.startsWith(from) || except.includes(source.file)
        ? []
        : importsWhere(source, (each) => mayNot.some((prefix) => each.target.startsWith(prefix))),
  };
}

/** Inside machines, actors and src, the package is imported only by files that start with one of `homes`. */
function only(name: string, homes: readonly string[], sentence: string): Rule {
  return {
    sentence,
    broken: (source) =>
      !isProduct(source) || homes.some((home) => source.file.startsWith(home))
        ? []
        : importsWhere(source, (each) => !each.relative && each.target === name),
  };
}

const ADAPTERS = ['src/store/', 'src/bus/', 'src/jobs/', 'src/crypto/'];
const COMMON = [
  'src/config',
  'src/log.ts',
  'src/metrics.ts',
  'src/telemetry/',
  'src/clock.ts',
  'src/errors.ts',
  'src/nats-greeting.ts',
];

const LAYERS: readonly Rule[] = [
  layer('machines/', [], 'machines/ imports nothing of actors/ or src/: what is true does not depend on who asks.'),
  {
    sentence: 'machines/ may import xstate, valibot, js-yaml and nunjucks, nothing else: it is pure.',
    broken: (source) =>
      source.file.startsWith('machines/')
        ? importsWhere(
            source,
            (each) => !each.relative && !['xstate', 'valibot', 'js-yaml', 'nunjucks'].includes(each.target),
          )
        : [],
  },
  layer('actors/', ['machines/'], 'actors/ depends on machines/ and its own ports, never on src/.'),
  wall(
    'actors/',
    ['pg', 'pg-boss', 'fastify', 'pino', 'prom-client', 'undici'],
    'actors/ says in what order and when; with what is a port.',
  ),
  {
    sentence: 'src/wire is shared with the client: schemas, machines/, and at most types of the services.',
    broken: (source) =>
      source.file.startsWith('src/wire/')
        ? importsWhere(
            source,
            (each) =>
              each.relative &&
              !/^(machines|src\/wire)\//.test(each.target) &&
              !(each.typeOnly && /^actors\/(services|ports|errors)\.ts$/.test(each.target)),
          )
        : [],
  },
  layer(
    'src/embedded/',
    ['actors/ports.ts', ...COMMON],
    'src/embedded starts and stops a PostgreSQL; it knows nothing of what is stored there.',
  ),
  wall(
    'src/api/',
    [
      'src/store/',
      'src/bus/',
      'src/jobs/',
      'src/embedded/',
      'src/worker/',
      'src/tools/',
      'src/cli/',
      'src/client/',
      'src/server.ts',
    ],
    'A route is a schema and one service call: src/api knows no store, bus or worker.',
  ),
  layer(
    'src/mcp/',
    ['machines/', 'actors/', 'src/wire/', ...COMMON],
    'src/mcp is the service in the words of the tool protocol: it knows services, no HTTP and no store.',
  ),
  ...ADAPTERS.map((home) =>
    layer(
      home,
      ['machines/', 'actors/', 'migrations/', ...ADAPTERS, ...COMMON],
      `${home} implements ports of actors/; it knows no HTTP, worker or command line.`,
    ),
  ),
  layer(
    'src/client/',
    ['machines/', 'src/wire/'],
    'src/client is the typed HTTP client over src/wire and runs on any machine.',
  ),
  layer(
    'src/worker/',
    ['machines/', 'src/wire/', 'src/client/', 'src/tools/', ...COMMON],
    'src/worker runs on another machine: it knows the client, the tools and machines/, never actors/ or a store.',
  ),
  layer(
    'src/tools/',
    ['machines/', ...COMMON],
    'src/tools is one kind of work per file, run by the worker; it knows neither server nor worker.',
  ),
  layer(
    'src/cli/',
    [
      'machines/',
      'src/wire/',
      'src/client/',
      'src/embedded/',
      'src/doctor/',
      'src/host/door.ts',
      'src/gateway/',
      'src/server.ts',
      'src/worker/main.ts',
      'src/worker/metrics-server.ts',
      'src/tools/registry.ts',
      'src/simulate/',
      ...COMMON,
    ],
    'src/cli starts processes or speaks HTTP; it reaches for no actor and no store.',
  ),
  layer(
    'src/gui/',
    [
      'machines/json.ts',
      'machines/playbook/json-schema.ts',
      'machines/playbook/schema-words.ts',
      'machines/playbook/tool-fields.ts',
    ],
    'src/gui runs in a browser and speaks HTTP: of the server it may know the JSON Schema of playbooks, nothing else.',
  ),
  {
    sentence: 'The GUI is pages, no library: only src/api and src/host import it, and only src/gui/build.',
    broken: (source) =>
      isProduct(source) && !source.file.startsWith('src/gui/')
        ? importsWhere(
            source,
            (each) =>
              each.target.startsWith('src/gui/') &&
              !(/^src\/(api|host)\//.test(source.file) && each.target.startsWith('src/gui/build/')),
          )
        : [],
  },
  layer(
    'src/gateway/',
    ['src/client/', 'src/config', 'src/log.ts', 'src/tools/http/egress.ts', 'src/tools/http/outbound.ts'],
    'src/gateway stands in front of the server and speaks HTTP with it; it knows no store and no actor.',
  ),
  layer(
    'src/doctor/',
    ['machines/', 'src/wire/', 'src/client/', 'src/store/diagnosis.ts', ...COMMON],
    'src/doctor looks from outside: over the typed client, or over the one part of the store that only reads.',
  ),
  wall('src/host/', ['src/worker/', 'src/cli/', 'src/tools/', 'src/client/'], 'src/host composes the server only.'),
  wall('src/host/', ADAPTERS, 'src/host/services.ts is the one composition root.', ['src/host/services.ts']),
];

const HOMES: readonly Rule[] = [
  only(
    'pg',
    ['src/store/', 'src/embedded/', 'src/bus/', 'src/tools/'],
    'pg is imported by the store, the bus, the embedded database and the postgres tool only.',
  ),
  only('pg-boss', ['src/jobs/boss.ts'], 'pg-boss is imported by src/jobs/boss.ts only.'),
  only('fastify', ['src/api/', 'src/host/', 'src/server.ts'], 'fastify is imported where HTTP is served.'),
  only('pino', ['src/log.ts'], 'pino is imported by src/log.ts only.'),
  only('prom-client', ['src/metrics.ts'], 'prom-client is imported by src/metrics.ts only.'),
  only('nunjucks', ['machines/playbook/template/'], 'nunjucks is only a parser here, and only templates parse.'),
  only('js-yaml', ['machines/playbook/'], 'js-yaml reads playbooks, in machines/playbook only.'),
  {
    sentence: 'No barrels: an import names the file that defines the thing (machines/index.ts is a registry).',
    broken: (source) =>
      isProduct(source) && source.file !== 'machines/index.ts' && definesNothing(source)
        ? importsWhere(source, (each) => each.reexport)
        : [],
  },
  {
    sentence: 'Product code imports nothing from test/, bench/ or examples/.',
    broken: (source) =>
      isProduct(source) ? importsWhere(source, (each) => /^(test|bench|examples)\//.test(each.target)) : [],
  },
];

// ---------------------------------------------------------------- what may not be said

const IMPURE = new Set([
  'Date',
  'process',
  'performance',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'queueMicrotask',
  'fetch',
  'console',
  'crypto',
  'Promise',
  'globalThis',
]);

const MACHINES: readonly Rule[] = [
  {
    sentence: 'machines/ is synchronous: no async and no await.',
    broken: (source) =>
      inMachines(
        source,
        (token, before, after) =>
          (token.kind === SyntaxKind.AsyncKeyword || token.kind === SyntaxKind.AwaitKeyword) &&
          isFreeName(before, after),
      ),
  },
  {
    sentence: 'machines/ is pure: time, chance, timers and the process are arguments or do not exist.',
    broken: (source) =>
      inMachines(
        source,
        (token, before, after) =>
          (IMPURE.has(token.text) && token.kind === SyntaxKind.Identifier && isFreeName(before, after)) ||
          (token.text === 'random' && before?.text === '.'),
      ),
  },
  {
    sentence: 'A chart starts nothing and waits for nothing: no invoke and no after.',
    broken: (source) =>
      source.imports.some((each) => each.target === 'xstate')
        ? inMachines(
            source,
            (token, before, after) =>
              (token.text === 'invoke' || token.text === 'after') &&
              after?.text === ':' &&
              (before?.text === '{' || before?.text === ','),
          )
        : [],
  },
  calledOnlyBy('createActor', ['machines/replay.ts'], 'createActor() is called by machines/replay.ts only.'),
  calledOnlyBy(
    'transition',
    ['machines/turn.ts', 'machines/replay.ts'],
    'transition() is called by machines/turn.ts and machines/replay.ts only.',
  ),
];

function calledOnlyBy(name: string, homes: readonly string[], sentence: string): Rule {
  return {
    sentence,
    broken: (source) =>
      !isProduct(source) || homes.includes(source.file) || !source.imports.some((each) => each.target === 'xstate')
        ? []
        : tokensWhere(
            source,
            (token, before) => token.kind === SyntaxKind.Identifier && token.text === name && before?.text !== '.',
          ),
  };
}

/** Text that may stand nowhere, put together so that this file does not contain it. */
const LEFTOVERS = [['TO', 'DO'].join(''), ['FIX', 'ME'].join(''), ['XX', 'X'].join('')];
const PLACES = [['', 'work', ''].join('/'), ['', 'tmp', 'brief'].join('/'), ['shared', 'spec'].join('/')];

const EVERYWHERE: readonly Rule[] = [
  {
    sentence: 'No `any`: unknown becomes a type at the border.',
    broken: (source) =>
      tokensWhere(
        source,
        (token, before) => token.kind === SyntaxKind.AnyKeyword && [':', '<', '|', 'as'].includes(before?.text ?? ''),
      ),
  },
  {
    sentence: 'Leftovers are finished or become an issue.',
    broken: (source) => linesWhere(source, (line) => LEFTOVERS.some((word) => new RegExp(`\\b${word}\\b`).test(line))),
  },
  {
    sentence: 'Nothing names a place on one machine.',
    broken: (source) =>
      linesWhere(source, (line) => PLACES.some((place) => line.includes(place))).filter(
        () => source.file !== '.ci/run',
      ),
  },
  {
    sentence: 'A process speaks through its log; only the command line, tests and benchmarks print.',
    broken: (source) =>
      !isProduct(source) || source.file.startsWith('src/cli/')
        ? []
        : tokensWhere(
            source,
            (token, before, after) =>
              token.text === 'console' &&
              token.kind === SyntaxKind.Identifier &&
              before?.text !== '.' &&
              after?.text === '.',
          ),
  },
  {
    sentence:
      'Only the command line and the tools that start programs look at the environment; settings are in src/config.ts.',
    broken: (source) =>
      !isProduct(source) || /^src\/(cli|tools|embedded)\//.test(source.file)
        ? []
        : tokensWhere(
            source,
            (token, before) =>
              token.text === 'env' &&
              before?.text === '.' &&
              source.text.includes('process.env') &&
              followsProcess(source, token),
          ),
  },
  {
    sentence: 'A focused test hides all others.',
    broken: (source) =>
      source.file.startsWith('test/')
        ? tokensWhere(
            source,
            (token, before, after) => token.text === 'only' && before?.text === '.' && after?.text === '(',
          )
        : [],
  },
  {
    sentence: 'A file is named for the noun it defines, in kebab case; utils, helpers, common and manager say nothing.',
    broken: (source) => {
      const name = source.file.split('/').at(-1) ?? '';
      const bad =
        !/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+)*$/.test(name) || /(^|-)(utils?|helpers?|common|managers?)\b/.test(name);
      return /\.(m?tsx?|mjs|js)$/.test(name) && bad ? [{ line: 1, what: name }] : [];
    },
  },
];

const RULES: readonly Rule[] = [...LAYERS, ...HOMES, ...MACHINES, ...EVERYWHERE];

// ---------------------------------------------------------------- looking

function isProduct(source: Source): boolean {
  return /^(machines|actors|src)\//.test(source.file);
}

/** Every export hands on what another file defines, or one of them hands on everything. */
function definesNothing(source: Source): boolean {
  const handedOn = source.imports.filter((each) => each.reexport).length;
  const exports = source.tokens.filter((token) => token.kind === SyntaxKind.ExportKeyword);
  return (
    handedOn > 0 &&
    (exports.length === handedOn ||
      source.tokens.some((token, index) => token.text === '*' && source.tokens[index - 1]?.text === 'export'))
  );
}

function importsWhere(source: Source, test: (each: Import) => boolean): Place[] {
  return source.imports.filter(test).map((each) => ({ line: each.line, what: `imports ${each.specifier}` }));
}

type TokenTest = (token: Token, before: Token | undefined, after: Token | undefined) => boolean;

function tokensWhere(source: Source, test: TokenTest): Place[] {
  return source.tokens
    .filter((token, index) => test(token, source.tokens[index - 1], source.tokens[index + 1]))
    .map((token) => ({ line: token.line, what: `says ${token.text}` }));
}

function inMachines(source: Source, test: TokenTest): Place[] {
  return source.file.startsWith('machines/') ? tokensWhere(source, test) : [];
}

function linesWhere(source: Source, test: (line: string) => boolean): Place[] {
  return source.text
    .split('\n')
    .flatMap((line, index) => (test(line) ? [{ line: index + 1, what: line.trim().slice(0, 80) }] : []));
}

/** A name of its own: not a member (`frame.process`) and not a key (`process: 'row'`). */
function isFreeName(before: Token | undefined, after: Token | undefined): boolean {
  return before?.text !== '.' && before?.text !== '?.' && after?.text !== ':' && after?.text !== '?';
}

function followsProcess(source: Source, token: Token): boolean {
  const index = source.tokens.indexOf(token);
  return source.tokens[index - 2]?.text === 'process';
}
