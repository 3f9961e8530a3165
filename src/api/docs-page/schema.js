/** Turns JSON Schema into rows: one for each field, however deep, with its type in words. */

const MAX_DEPTH = 6;

/** The schema that a reference names, or the schema itself. */
export function resolved(schema, document) {
  const name = /^#\/components\/schemas\/(.+)$/.exec(schema?.$ref ?? '')?.[1];
  return name === undefined ? schema : (document.components.schemas[name] ?? {});
}

/** `[{ name, type, required, description }]`; names of inner fields are dotted, `[]` is each item. */
export function fieldsOf(schema, document, prefix = '', depth = 0) {
  const { schema: whole } = withoutNull(resolved(schema, document));
  if (depth > MAX_DEPTH) return [];
  if (whole.type === 'array')
    return fieldsOf(whole.items ?? {}, document, `${prefix}[]`, depth + 1);
  const required = new Set(whole.required ?? []);
  return Object.entries(whole.properties ?? {}).flatMap(([name, field]) => {
    const path = prefix === '' ? name : `${prefix}.${name}`;
    const row = {
      name: path,
      type: typeText(field, document),
      required: required.has(name),
      description: field.description ?? resolved(field, document).description ?? '',
    };
    return [row, ...fieldsOf(field, document, path, depth + 1)];
  });
}

export function typeText(given, document) {
  const { schema, isNullable } = withoutNull(resolved(given, document));
  const text = plainType(schema, document);
  const more = [
    schema.default === undefined ? '' : `default ${JSON.stringify(schema.default)}`,
    bounds(schema),
  ].filter((each) => each !== '');
  return [isNullable ? `${text} or null` : text, ...more].join('; ');
}

function plainType(schema, document) {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((each) => JSON.stringify(each)).join(' | ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return choices.map((each) => typeText(each, document)).join(' | ');
  if (schema.type === 'array') return `list of ${typeText(schema.items ?? {}, document)}`;
  if (schema.format === 'date-time') return 'instant';
  return schema.type ?? 'anything';
}

function bounds({ minimum, maximum, maxLength, maxItems }) {
  const parts = [];
  // The limits of whole numbers in JavaScript bound nothing that a reader would send.
  if (minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER) parts.push(`from ${minimum}`);
  if (maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER) parts.push(`to ${maximum}`);
  if (maxLength !== undefined) parts.push(`at most ${maxLength} characters`);
  if (maxItems !== undefined) parts.push(`at most ${maxItems}`);
  return parts.join(' ');
}

/** `anyOf: [x, null]` is x, which may be null. */
function withoutNull(schema) {
  const choices = schema?.anyOf;
  if (choices?.length !== 2) return { schema: schema ?? {}, isNullable: false };
  const other = choices.filter(({ type }) => type !== 'null');
  if (other.length !== 1) return { schema, isNullable: false };
  return { schema: { ...other[0], description: schema.description }, isNullable: true };
}
