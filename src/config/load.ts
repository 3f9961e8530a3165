/**
 * Loads the configuration: defaults < file < environment < flags.
 *
 * Every problem of every source is found before anything is said, a wrong value that a stronger
 * source overrides included: whoever repairs a configuration should have to start only once more.
 */
import fs from 'node:fs';
import { LedgerError } from '../platform/errors.ts';
import { RELATIONS } from './relations.ts';
import { type Config, type ConfigInput, configSchema } from './schema.ts';
import {
  ENV_ALIASES,
  ENV_PREFIX,
  nest,
  parseText,
  SECTIONS,
  SETTINGS,
  type Setting,
  settingByEnvName,
  settingByKey,
  snakeCase,
  valueAt,
} from './settings.ts';
import { closest } from './suggest.ts';
import { isTable, readTomlFile } from './toml-file.ts';

/** Read when it exists and no other file is named. */
export const DEFAULT_FILE = './clickledger.toml';

export interface ConfigSources {
  /** A file that must exist; without it `defaultFile` is read if there is one. */
  readonly file?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly flags?: ConfigInput;
  readonly defaultFile?: string;
}

/** One setting that one source gives. */
interface Given {
  readonly setting: Setting;
  readonly value: unknown;
  readonly source: string;
}

/** What one source says, and what is wrong with it. */
interface Reading {
  readonly given: Given[];
  readonly problems: string[];
}

/** Throws LedgerError `config_invalid` that lists every problem, one a line. */
export function loadConfig(sources: ConfigSources): Config {
  const readings = [
    readFile(sources.file, sources.defaultFile ?? DEFAULT_FILE),
    readEnvironment(sources.env),
    readFlags(sources.flags ?? {}),
  ];
  const problems = readings.flatMap((reading) => reading.problems);
  const effective = new Map<Setting, Given>();
  const wrong = new Set<string>();
  for (const given of readings.flatMap((reading) => reading.given)) {
    if (configSchema.safeParse(nest([[given.setting, given.value]])).success) {
      effective.set(given.setting, given);
    } else {
      wrong.add(given.setting.key);
      problems.push(wrongValue(given));
    }
  }
  const values = [...effective.values()].map((given) => [given.setting, given.value] as const);
  const config = configSchema.parse(nest(values));
  problems.push(...brokenRelations(config, effective, wrong));
  if (problems.length > 0) throw invalid(problems, sources.env);
  return config;
}

function readFile(file: string | undefined, defaultFile: string): Reading {
  const path = file ?? defaultFile;
  const reading: Reading = { given: [], problems: [] };
  if (file === undefined && !fs.existsSync(defaultFile)) return reading;
  const content = readTomlFile(path);
  if ('problem' in content) {
    reading.problems.push(`${place(path, content.line)}: ${content.problem}`);
    return reading;
  }
  const unknownTables = new Set<string>();
  for (const { key, value, line } of content.values) {
    const source = place(path, line);
    if (unknownTables.has(key.slice(0, key.lastIndexOf('.')))) {
      if (isTable(value)) unknownTables.add(key);
    } else if (isTable(value) && !SECTIONS.includes(key) && settingByKey(key) === undefined) {
      unknownTables.add(key);
      reading.problems.push(`${source}: [${key}]: no such section${didYouMean(key, SECTIONS)}`);
    } else if (!isTable(value) || !SECTIONS.includes(key)) {
      take(reading, key, value, source);
    }
  }
  return reading;
}

function readEnvironment(env: ConfigSources['env']): Reading {
  const reading: Reading = { given: [], problems: [] };
  for (const [name, text] of Object.entries(env)) {
    if (text === undefined || !(name.startsWith(ENV_PREFIX) || name in ENV_ALIASES)) continue;
    const target = ENV_ALIASES[name] ?? name;
    const setting = settingByEnvName(target);
    if (setting === undefined) {
      const known = [...SETTINGS.map((each) => each.envName), ...Object.keys(ENV_ALIASES)];
      reading.problems.push(`${name}: no such setting${didYouMean(name, known)}`);
    } else if (target !== name && env[target] !== undefined && env[target] !== text) {
      reading.problems.push(`${name}: says otherwise than ${target}; set one of the two`);
    } else {
      reading.given.push({ setting, value: parseText(setting, text), source: name });
    }
  }
  return reading;
}

function readFlags(flags: ConfigInput): Reading {
  const reading: Reading = { given: [], problems: [] };
  takeTable(reading, flags, '');
  return reading;
}

function takeTable(reading: Reading, table: object, prefix: string): void {
  for (const [name, value] of Object.entries(table)) {
    const key = prefix + snakeCase(name);
    if (SECTIONS.includes(key) && isTable(value)) takeTable(reading, value, `${key}.`);
    else take(reading, key, value, 'command line');
  }
}

/** Takes a value for a dotted key; a value that is undefined was not given. */
function take(reading: Reading, key: string, value: unknown, source: string): void {
  const setting = settingByKey(key);
  if (value === undefined) return;
  if (setting !== undefined) {
    reading.given.push({ setting, value, source });
  } else if (SECTIONS.includes(key)) {
    reading.problems.push(`${source}: ${key}: given ${shown(value)}, expected a table of settings`);
  } else {
    const keys = SETTINGS.map((each) => each.key);
    reading.problems.push(`${source}: ${key}: no such setting${didYouMean(snakeCase(key), keys)}`);
  }
}

function wrongValue({ setting, value, source }: Given): string {
  const where = source === setting.envName ? source : `${source}: ${setting.key}`;
  return `${where}: given ${setting.isSecret ? '…' : shown(value)}, expected ${setting.expected}`;
}

/** A rule about a value that is wrong by itself would only repeat that. */
function brokenRelations(
  config: Config,
  effective: ReadonlyMap<Setting, Given>,
  wrong: ReadonlySet<string>,
): string[] {
  return RELATIONS.filter(
    (relation) => !relation.keys.some((key) => wrong.has(key)) && !relation.holds(config),
  ).map((relation) => {
    const values = relation.keys.map((key) => {
      const setting = settingByKey(key)!;
      const source = effective.get(setting)?.source ?? 'default';
      return `${key} = ${shown(valueAt(config, setting))} (${source})`;
    });
    return `${relation.rule}, otherwise ${relation.because}; given ${values.join(', ')}`;
  });
}

function invalid(problems: readonly string[], env: ConfigSources['env']): LedgerError {
  const count = problems.length === 1 ? 'one problem' : `${problems.length} problems`;
  const lines = problems.map((problem) => `\n  ${problem}`).join('');
  // Kubernetes hands every container the address of every service, under names like ours.
  const serviceLinks = Object.entries(env).some(
    ([name, text]) => name.startsWith(ENV_PREFIX) && /^(tcp|udp):\/\//.test(text ?? ''),
  );
  return new LedgerError('config_invalid', `the configuration has ${count}:${lines}`, {
    hint: serviceLinks
      ? 'Kubernetes sets CLICKLEDGER_* variables for a service of that name: set "enableServiceLinks: false".'
      : 'See docs/configuration.md for every setting, its limits and its default.',
  });
}

function didYouMean(name: string, known: readonly string[]): string {
  // A key in the wrong section, or in none, is more often meant than a misspelt one.
  const last = name.slice(name.lastIndexOf('.') + 1);
  const moved = known.filter((each) => each.endsWith(`.${last}`));
  const guess = closest(name, known) ?? (moved.length > 0 ? moved.join(' or ') : '');
  return guess === '' ? '' : `; did you mean ${guess}?`;
}

function shown(value: unknown): string {
  const text = isTable(value) ? 'a table' : (JSON.stringify(value) ?? String(value));
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

function place(path: string, line: number | undefined): string {
  return line === undefined ? path : `${path}:${line}`;
}
