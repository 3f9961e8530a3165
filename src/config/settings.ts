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
/** Short name for the one setting that nearly everybody sets. */
export const ENV_ALIASES: Readonly<Record<string, string>> = {
  CLICKLEDGER_DATA: 'CLICKLEDGER_DATA_DIR',
};

export type SettingType = 'string' | 'integer' | 'number' | 'boolean';

export interface Setting {
  /** Names in the schema, e.g. `['click', 'maxUrlBytes']`; one name for settings without a section. */
  readonly path: readonly string[];
  /** Empty for settings without a section. */
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
  readonly description: string;
}

const DESCRIPTION = z.object({
  type: z.enum(['string', 'integer', 'number', 'boolean']),
  default: z.unknown(),
  defaultText: z.string().optional(),
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
  const root = z.toJSONSchema(configSchema, { io: 'input' });
  const bare: Setting[] = [];
  const sectioned: Setting[] = [];
  for (const [name, schema] of Object.entries(root.properties ?? {})) {
    assert(typeof schema === 'object', `${name} has a schema`);
    if (schema.type !== 'object') {
      bare.push(toSetting([name], schema));
      continue;
    }
    for (const [inner, innerSchema] of Object.entries(schema.properties ?? {})) {
      sectioned.push(toSetting([name, inner], innerSchema));
    }
  }
  return [...bare, ...sectioned];
}

function toSetting(path: string[], schema: unknown): Setting {
  const description = DESCRIPTION.safeParse(schema);
  assert(description.success, `setting ${path.join('.')} has no description, or no plain type`);
  const names = path.map(snakeCase);
  return {
    path,
    section: names.length > 1 ? names[0]! : '',
    key: names.join('.'),
    envName: ENV_PREFIX + names.join('_').toUpperCase(),
    type: description.data.type,
    defaultValue: description.data.default,
    defaultText: description.data.defaultText,
    expected: inWords(description.data),
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
    const [first, second] = setting.path;
    assert(first !== undefined, 'a setting has a name');
    if (second === undefined) root[first] = value;
    else root[first] = { ...(root[first] as object | undefined), [second]: value };
  }
  return root;
}

/** The value of a setting in a configuration (or in part of one). */
export function valueAt(config: object, setting: Setting): unknown {
  let value: unknown = config;
  for (const name of setting.path) value = (value as Record<string, unknown> | undefined)?.[name];
  return value;
}
