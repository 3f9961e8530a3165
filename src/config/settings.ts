/**
 * The settings as a flat list, read off the schema: their names in a file and in the environment,
 * their limits in words, and how a text becomes a value.
 *
 * Everything that names a setting (the loader, its messages, the documentation) goes through here,
 * so that a key added to the schema has its file key, its variable and its documentation at once.
 */
import { z } from 'zod';
import { assert } from '../platform/errors.ts';
import { configSchema } from './schema.ts';

export const ENV_PREFIX = 'CLICKLEDGER_';
/** Short name for the one setting that nearly everybody sets, and one that others set as well. */
export const ENV_ALIASES: Readonly<Record<string, string>> = {
  CLICKLEDGER_DATA: 'CLICKLEDGER_DATA_DIR',
  CLICKHOUSE_PASSWORD: 'CLICKLEDGER_WAREHOUSE_CLICKHOUSE_PASSWORD',
};

export type SettingType = 'string' | 'integer' | 'number' | 'boolean';

export interface Setting {
  /** Names in the schema, e.g. `['click', 'maxUrlBytes']`; one name for settings without a section. */
  readonly path: readonly string[];
  /** Dotted name of its table, e.g. `archive.s3`; empty for settings without a section. */
  readonly section: string;
  /** Dotted key of the file, e.g. `click.max_url_bytes`. */
  readonly key: string;
  readonly envName: string;
  readonly type: SettingType;
  readonly defaultValue: unknown;
  /** What the documentation says in place of a default that depends on the machine. */
  readonly defaultText: string | undefined;
  /** What a value must be, in words. */
  readonly expected: string;
  /** Its value is never shown. */
  readonly isSecret: boolean;
  readonly description: string;
}

const DESCRIPTION = z.object({
  type: z.enum(['string', 'integer', 'number', 'boolean']),
  default: z.unknown(),
  defaultText: z.string().optional(),
  secret: z.boolean().optional(),
  description: z.string(),
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  minLength: z.number().optional(),
  pattern: z.string().optional(),
  enum: z.array(z.string()).optional(),
});
type Description = z.infer<typeof DESCRIPTION>;

export const snakeCase = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Every setting, in the order of the schema: those without a section first. */
export const SETTINGS: readonly Setting[] = readSettings();
/** File names of the sections, in the order of the schema. */
export const SECTIONS: readonly string[] = [
  ...new Set(SETTINGS.map((setting) => setting.section).filter((section) => section !== '')),
];

const BY_KEY = new Map(SETTINGS.map((setting) => [setting.key, setting]));
const BY_ENV_NAME = new Map(SETTINGS.map((setting) => [setting.envName, setting]));

export const settingByKey = (key: string): Setting | undefined => BY_KEY.get(key);
export const settingByEnvName = (name: string): Setting | undefined => BY_ENV_NAME.get(name);

function readSettings(): Setting[] {
  return settingsOf([], z.toJSONSchema(configSchema, { io: 'input' }));
}

/** Plain settings of a table first, then the tables within it: the order in which TOML has them. */
function settingsOf(path: string[], table: z.core.JSONSchema.BaseSchema): Setting[] {
  const plain: Setting[] = [];
  const tables: Setting[] = [];
  for (const [name, schema] of Object.entries(table.properties ?? {})) {
    assert(typeof schema === 'object', `${name} has a schema`);
    if (schema.type === 'object') tables.push(...settingsOf([...path, name], schema));
    else plain.push(toSetting([...path, name], schema));
  }
  return [...plain, ...tables];
}

function toSetting(path: string[], schema: unknown): Setting {
  const description = DESCRIPTION.safeParse(schema);
  assert(description.success, `setting ${path.join('.')} has no description, or no plain type`);
  const names = path.map(snakeCase);
  return {
    path,
    section: names.slice(0, -1).join('.'),
    key: names.join('.'),
    envName: ENV_PREFIX + names.join('_').toUpperCase(),
    type: description.data.type,
    defaultValue: description.data.default,
    defaultText: description.data.defaultText,
    expected: inWords(description.data),
    isSecret: description.data.secret === true,
    description: description.data.description,
  };
}

function inWords(schema: Description): string {
  if (schema.enum !== undefined) {
    return `one of ${schema.enum.map((value) => `"${value}"`).join(', ')}`;
  }
  switch (schema.type) {
    case 'boolean':
      return 'true or false';
    case 'integer':
      return `a whole number from ${schema.minimum} to ${schema.maximum}`;
    case 'number':
      return `a number from ${schema.minimum} to ${schema.maximum}`;
    case 'string':
      if (schema.pattern !== undefined) return `text that matches ${schema.pattern}`;
      return schema.minLength === undefined ? 'text' : 'text that is not empty';
  }
}

/**
 * Reads the text of a variable as the setting's type. A text that is no such value is returned as it
 * is, and then refused by the schema with the same words as a wrong value in a file.
 */
export function parseText(setting: Setting, text: string): unknown {
  switch (setting.type) {
    case 'string':
      return text;
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : text;
    case 'integer':
    case 'number':
      return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
  }
}

/** The shape that the schema takes, out of settings and their values. */
export function nest(values: Iterable<readonly [Setting, unknown]>): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [setting, value] of values) {
    const name = setting.path.at(-1);
    assert(name !== undefined, 'a setting has a name');
    let table = root;
    for (const each of setting.path.slice(0, -1)) {
      table[each] ??= {};
      table = table[each] as Record<string, unknown>;
    }
    table[name] = value;
  }
  return root;
}

/** The value of a setting in a configuration (or in part of one). */
export function valueAt(config: object, setting: Setting): unknown {
  let value: unknown = config;
  for (const name of setting.path) value = (value as Record<string, unknown> | undefined)?.[name];
  return value;
}
