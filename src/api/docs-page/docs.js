/**
 * Shows the API's description, and sends GET requests to try it.
 *
 * Everything from the description and from answers is put in as text, never as markup. The token is
 * kept in this tab's session storage only.
 */
import { fieldsOf, typeText } from './schema.js';

const TOKEN_KEY = 'clickledger.docs.token';
const SHOWN_LENGTH = 100_000;
const SHOWN_HEADERS = ['content-type', 'link', 'ratelimit-remaining', 'retry-after', 'etag'];
/** Answers that never end are not for this page. */
const ENDLESS = 'text/event-stream';

const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Text with `code` in it. */
function words(text) {
  return text.split('`').map((part, index) => (index % 2 === 1 ? element('code', {}, part) : part));
}

function paragraphs(text) {
  return text.split('\n\n').map((part) => element('p', {}, ...words(part)));
}

function table(headings, rows) {
  const head = element('tr', {}, ...headings.map((each) => element('th', { scope: 'col' }, each)));
  const body = rows.map((cells) =>
    element('tr', {}, ...cells.map((cell) => element('td', {}, ...[cell].flat()))),
  );
  const all = element('table', {}, element('thead', {}, head), element('tbody', {}, ...body));
  return element('div', { class: 'scroll' }, all);
}

function fieldTable(schema, description) {
  const rows = fieldsOf(schema, description).map((field) => [
    element('code', {}, field.name),
    `${field.type}${field.required ? '; required' : ''}`,
    words(field.description),
  ]);
  return rows.length === 0
    ? element('p', {}, typeText(schema, description))
    : table(['field', 'type', 'meaning'], rows);
}

function parameterTable(parameters, description) {
  const rows = parameters.map((each) => [
    element('code', {}, each.name),
    each.in,
    `${typeText(each.schema, description)}${each.required ? '; required' : ''}`,
    words(each.description ?? ''),
  ]);
  return table(['name', 'in', 'type', 'meaning'], rows);
}

function contentOf(content, description) {
  return Object.entries(content ?? {}).flatMap(([type, { schema, example }]) => [
    element('p', { class: 'quiet' }, type),
    ...(schema === undefined ? [] : [fieldTable(schema, description)]),
    ...(example === undefined ? [] : [element('pre', {}, exampleText(example))]),
  ]);
}

function exampleText(example) {
  return typeof example === 'string' ? example : JSON.stringify(example, null, 2);
}

/** Answers with content of their own in full; those that all operations share in one line each. */
function answersOf(operation, description) {
  return Object.entries(operation.responses).flatMap(([status, given]) => {
    const name = given.$ref?.split('/').at(-1);
    const answer = name === undefined ? given : description.components.responses[name];
    const line = element('p', {}, element('strong', {}, status), ' ', ...words(answer.description));
    return name === undefined ? [line, ...contentOf(answer.content, description)] : [line];
  });
}

function operationView(operation, description) {
  const { method, path, parameters, requestBody } = operation;
  const title = element(
    'summary',
    {},
    element('h3', {}, element('span', { class: method }, method), ' ', element('code', {}, path)),
    ` ${operation.summary}`,
  );
  const inside = element('div', { class: 'inside' });
  const details = element('details', {}, title, inside);
  // Made when it is opened first: a description of many operations is shown at once all the same.
  const fill = () => {
    if (!details.open || inside.childElementCount > 0) return;
    inside.append(...paragraphs(operation.description ?? ''));
    if (parameters.length > 0) {
      inside.append(element('h4', {}, 'Parameters'), parameterTable(parameters, description));
    }
    if (requestBody !== undefined) {
      inside.append(element('h4', {}, 'Body'), ...contentOf(requestBody.content, description));
    }
    inside.append(element('h4', {}, 'Answers'), ...answersOf(operation, description));
    if (canSend(operation)) inside.append(element('h4', {}, 'Try it'), ...tryIt(operation));
  };
  details.addEventListener('toggle', fill);
  return element('article', { id: operation.operationId }, details);
}

function canSend({ method, responses }) {
  return method === 'GET' && responses[200]?.content?.[ENDLESS] === undefined;
}

function tryIt(operation) {
  const form = element('form', {});
  const output = element('pre', { 'aria-live': 'polite', hidden: '' });
  for (const { name, required } of operation.parameters) {
    const id = `${operation.operationId}-${name}`;
    form.append(
      element('label', { for: id }, name),
      element('input', { id, name, autocomplete: 'off', ...(required ? { required: '' } : {}) }),
    );
  }
  form.append(element('button', {}, 'Send'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    output.hidden = false;
    output.textContent = 'Waiting for the answer…';
    send(operation, new FormData(form)).then(
      (text) => {
        output.textContent = text;
      },
      (error) => {
        output.textContent = `No answer: ${error.message}`;
      },
    );
  });
  return [form, output];
}

async function send(operation, values) {
  let path = operation.path;
  const query = new URLSearchParams();
  for (const { name, in: place } of operation.parameters) {
    const value = String(values.get(name) ?? '');
    if (place === 'path') path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (value !== '') query.set(name, value);
  }
  const token = byId('token').value.trim();
  const search = query.size === 0 ? '' : `?${query}`;
  const answer = await fetch(`.${path}${search}`, {
    headers: token === '' ? {} : { Authorization: `Bearer ${token}` },
  });
  const headers = SHOWN_HEADERS.filter((name) => answer.headers.has(name)).map(
    (name) => `${name}: ${answer.headers.get(name)}`,
  );
  const body = shownBody(await answer.text(), answer.headers.get('content-type') ?? '');
  return [`GET ${path}${search}`, '', String(answer.status), ...headers, '', body].join('\n');
}

function shownBody(text, type) {
  const pretty = /json$/.test(type.split(';')[0].trim()) ? prettyJson(text) : text;
  if (pretty.length <= SHOWN_LENGTH) return pretty;
  return `${pretty.slice(0, SHOWN_LENGTH)}\n… ${pretty.length - SHOWN_LENGTH} characters more`;
}

function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function operationsOf(description) {
  return Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      path,
      method: method.toUpperCase(),
      tag: operation.tags[0],
    })),
  );
}

function show(description) {
  byId('about').append(...words(description.info.description));
  byId('version').textContent = `version ${description.info.version}`;
  const main = byId('operations');
  main.replaceChildren();
  const shown = [];
  for (const { name } of description.tags) {
    const links = element('section', {}, element('h2', {}, name));
    const part = element('section', {}, element('h2', {}, name));
    for (const operation of operationsOf(description).filter(({ tag }) => tag === name)) {
      const { method, path, operationId, summary } = operation;
      const view = operationView(operation, description);
      const link = element(
        'a',
        { href: `#${operationId}`, title: summary },
        element('span', { class: method }, method),
        ` ${path}`,
      );
      link.addEventListener('click', () => open(view));
      links.append(link);
      part.append(view);
      shown.push({ text: `${method} ${path} ${summary}`.toLowerCase(), elements: [view, link] });
    }
    byId('contents').append(links);
    main.append(part);
  }
  byId('find').addEventListener('input', () => filter(shown));
  const named = location.hash === '' ? null : byId(decodeURIComponent(location.hash.slice(1)));
  if (named?.localName === 'article') open(named);
}

function open(article) {
  article.querySelector('details').open = true;
  article.scrollIntoView();
}

function filter(shown) {
  const wanted = byId('find').value.trim().toLowerCase();
  for (const { text, elements } of shown) {
    for (const each of elements) each.hidden = !text.includes(wanted);
  }
  for (const section of document.querySelectorAll('section')) {
    section.hidden = section.querySelector('article:not([hidden]), a:not([hidden])') === null;
  }
}

function keepToken() {
  const field = byId('token');
  field.value = sessionStorage.getItem(TOKEN_KEY) ?? '';
  field.addEventListener('input', () => sessionStorage.setItem(TOKEN_KEY, field.value));
}

async function start() {
  keepToken();
  try {
    const answer = await fetch('openapi.json');
    show(await answer.json());
  } catch (error) {
    byId('operations').textContent = `The description cannot be loaded: ${error.message}`;
  }
}

start();
