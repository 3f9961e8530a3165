/**
 * The raw parameters of a request, wherever they stand, and the words for what is wrong with them.
 *
 * A name that is not known is refused: a filter with a typing error in it would otherwise answer with
 * the numbers of everything.
 */
import type { Context } from 'hono';
import { z } from 'zod';
import { closest } from '../config/suggest.ts';
import { quoted } from '../platform/row-types.ts';
import { type ParameterError, Problem, parameterProblem } from './problem.ts';

/** Names to strings; to arrays of strings where a name was repeated or JSON had a list. */
export type RawParameters = Readonly<Record<string, unknown>>;

export async function rawParameters(c: Context): Promise<RawParameters> {
  if (c.req.method !== 'POST') return fromPairs(new URL(c.req.url).searchParams);
  if (new URL(c.req.url).search !== '') {
    throw new Problem(400, 'parameters_in_two_places', 'A POST has its parameters in the body.', {
      hint: 'Leave the query string empty.',
    });
  }
  const type = (c.req.header('Content-Type') ?? '').split(';')[0]!.trim().toLowerCase();
  if (type === 'application/x-www-form-urlencoded') {
    return fromPairs(new URLSearchParams(await c.req.text()));
  }
  if (type === 'application/json') return await jsonObject(c);
  throw new Problem(415, 'media_type', `The body is ${quoted(type)}.`, {
    hint: 'Send application/json or application/x-www-form-urlencoded.',
  });
}

/** The body as a JSON object; an empty body is an empty object. */
export async function jsonObject(c: Context): Promise<RawParameters> {
  const text = await c.req.text();
  if (text.trim() === '') return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Problem(400, 'body_not_json', 'The body is not JSON.');
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as RawParameters;
  }
  throw new Problem(400, 'body_not_json', 'The body is not a JSON object.');
}

/** A repeated name adds up to one list; where no list is expected, the schema refuses it. */
function fromPairs(pairs: URLSearchParams): RawParameters {
  const found: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of pairs) {
    const before = found[name];
    if (before === undefined) found[name] = value;
    else if (typeof before === 'string') found[name] = [before, value];
    else before.push(value);
  }
  return found;
}

export function parseParameters<T extends z.ZodObject>(schema: T, raw: RawParameters): z.infer<T> {
  const parsed = schema.safeParse({ ...raw });
  if (parsed.success) return parsed.data;
  const names = Object.keys(schema.shape);
  const errors = parsed.error.issues.flatMap((issue): ParameterError[] => {
    if (issue.code !== 'unrecognized_keys') {
      return [{ parameter: String(issue.path[0] ?? ''), message: issue.message }];
    }
    return issue.keys.map((parameter) => ({ parameter, message: unknownName(parameter, names) }));
  });
  throw parameterProblem(errors);
}

function unknownName(name: string, names: readonly string[]): string {
  const meant = closest(name, names);
  const shown = quoted(name);
  return meant === undefined
    ? `There is no parameter ${shown}; there are ${names.join(', ')}.`
    : `There is no parameter ${shown}; did you mean ${meant}?`;
}

/** One text; `what` says what is expected. */
export function text(what: string) {
  return z.string({
    error: ({ input }) =>
      input === undefined ? `Missing: ${what}.` : `Give it once, as text: ${what}.`,
  });
}

export function oneOf<const T extends readonly string[]>(values: T) {
  return z.enum(values, {
    error: ({ input }) => {
      const meant = typeof input === 'string' ? closest(input, values) : undefined;
      const hint = meant === undefined ? '' : ` Did you mean ${meant}?`;
      return `${quoted(String(input))} is not one of ${values.join(', ')}.${hint}`;
    },
  });
}

/** `a,b`, repeated names, or an array; duplicates collapse, an empty item is a mistake. */
export function listOf<T extends z.ZodType<string>>(item: T, most: number, what: string) {
  return z
    .preprocess(
      splitList,
      z
        .array(item, { error: `Give ${what} as a comma list or an array of texts.` })
        .min(1, `The list is empty; leave the parameter out to ask for all.`),
    )
    .transform((values) => [...new Set(values)])
    .refine((values) => values.length <= most, {
      error: ({ input }) =>
        `${(input as unknown[]).length} ${what}, at most ${most} in one query: ask in several. ` +
        'Long lists go by POST; a URL holds about 16 KB.',
    });
}

function splitList(value: unknown): unknown {
  const split = (item: unknown): unknown => (typeof item === 'string' ? item.split(',') : item);
  return Array.isArray(value) ? value.flatMap(split) : split(value);
}

export function wholeNumber(min: number, max: number) {
  return z.preprocess(
    (value) => (typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value),
    z
      .int({ error: `Give a whole number from ${min} to ${max}.` })
      .min(min, `Give a whole number from ${min} to ${max}.`)
      .max(max, `Give a whole number from ${min} to ${max}.`),
  );
}
