/**
 * A small server that speaks enough of ClickHouse's HTTP interface for the real client, and runs the
 * statements on chDB: `bun clickhouse-http.ts <data dir> <port>`. A process of its own, so that tests
 * can kill it and start it again on the same data.
 *
 * IT IS NOT A CLICKHOUSE SERVER. The SQL runs on ClickHouse's engine, the network path is the real one
 * of the client, and errors have the engine's codes; but whatever a server is beside its engine is not
 * here: no Keeper, no replicas, no second node, no users, no quotas, no merges under load. What stands
 * for them, so that the text which a cluster gets can run at all:
 * - `ON CLUSTER '…'` is cut off, and a Replicated engine becomes the plain one of the same kind;
 * - the one cluster that the engine knows, `one`, has one shard, which is this process: `Distributed`
 *   tables are real, but never cross a network;
 * - settings that only make sense on replicas are taken and have no effect, as in the engine itself;
 * - statements run one after the other.
 *
 * `POST /faults` (see `Fault`) makes the next matching statements fail on the way; `GET /statements`
 * tells what came in.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Session } from 'chdb';
import { type Fault, PASSWORD, type Seen, USER } from './clickhouse-server.ts';

interface Call {
  readonly query: string;
  readonly rows: string;
  readonly params: Record<string, string>;
  readonly settings: Record<string, string>;
  readonly database: string;
  readonly format: string;
}

/** What a server limits by default. */
const MAX_URI_BYTES = 1_048_576;
const MAX_FIELD_BYTES = 131_072;
/** Settings of the HTTP layer, which the engine in a process does not know. */
const HTTP_ONLY = new Set([
  'wait_end_of_query',
  'enable_http_compression',
  'http_zlib_compression_level',
  'send_progress_in_http_headers',
]);
const NO_SETTINGS = new Set(['query', 'database', 'query_id', 'default_format', 'role']);

class EngineError extends Error {
  readonly code: number;
  constructor(code: number, name: string, text: string) {
    super(
      `Code: ${code}. DB::Exception: ${text} (${name}) (version 0 (chDB behind a test server))`,
    );
    this.code = code;
  }
}

async function serve(root: string, atPort: number): Promise<void> {
  // The engine reads `config.xml` of the folder that it is started in.
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, 'config.xml'), CLUSTER_XML);
  process.chdir(root);
  const engine = new Engine(join(root, 'data'));
  await engine.run({ ...NOTHING, query: 'CREATE DATABASE IF NOT EXISTS clickledger' });
  const server = createServer((request, response) => {
    answer(engine, request, response).catch((error: unknown) => {
      process.stderr.write(`${String(error)}\n`);
      response.destroy();
    });
  });
  server.keepAliveTimeout = 10_000;
  server.listen(atPort, '127.0.0.1', () => {
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    process.stdout.write(`ready ${address.port}\n`);
  });
  // Nobody who could ask is left.
  process.stdin.on('end', () => process.exit(0));
  process.stdin.resume();
}

const CLUSTER_XML = `<clickhouse>
  <tcp_port>9000</tcp_port>
  <remote_servers>
    <one><shard><internal_replication>true</internal_replication>
      <replica><host>127.0.0.1</host><port>9000</port></replica></shard></one>
    <doubling><shard><internal_replication>false</internal_replication>
      <replica><host>127.0.0.1</host><port>9000</port></replica></shard></doubling>
  </remote_servers>
</clickhouse>
`;

const NOTHING = { rows: '', params: {}, settings: {}, database: 'default', format: 'TabSeparated' };

class Engine {
  readonly #session: Session;
  /** Settings of the call before, which must not be those of the next. */
  #set: readonly string[] = [];
  #queue: Promise<unknown> = Promise.resolve();

  constructor(path: string) {
    this.#session = new Session(path);
  }

  run(call: Call): Promise<Uint8Array> {
    const result = this.#queue.then(() => this.#run(call));
    this.#queue = result.catch(() => {});
    return result;
  }

  async #run({ query, rows, params, settings, database, format }: Call): Promise<Uint8Array> {
    const names = Object.keys(settings).filter((name) => !HTTP_ONLY.has(name));
    const text = rows === '' ? alone(query) : `${alone(query)}\n${rows}`;
    const before = [
      `USE ${database}`,
      ...this.#set.filter((name) => !names.includes(name)).map((name) => `SET ${name} = DEFAULT`),
      ...names.map((name) => `SET ${name} = ${literal(settings[name]!)}`),
      // Escaped once more, as on the wire: the engine undoes that when it binds.
      ...Object.entries(params).map(([name, value]) => `SET param_${name} = ${literal(value)}`),
    ];
    this.#set = names;
    try {
      for (const statement of before) await this.#session.queryAsync(statement);
      return (await this.#session.queryAsync(text, { format })).bytes();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const [, code, , name] =
        /Code: (\d+)\. DB::Exception: ([\s\S]*?) \(([A-Z_]{3,})\)/.exec(message) ?? [];
      throw new EngineError(Number(code ?? 1002), name ?? 'UNKNOWN', message);
    }
  }
}

const literal = (text: string): string =>
  `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

/** What a cluster's statement is on the one node that there is. */
function alone(query: string): string {
  return query
    .replace(/ ON CLUSTER '[^']*'/g, '')
    .replace(/\bReplicated(\w*MergeTree)\('[^']*', '[^']*'(?:, )?/g, '$1(');
}

const faults: { fault: Fault; left: number }[] = [];
const seen: Seen[] = [];

async function answer(
  engine: Engine,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url!, 'http://localhost');
  if (url.pathname === '/ping') return void response.end('Ok.\n');
  const body = await bodyOf(request);
  if (url.pathname === '/statements') return void response.end(JSON.stringify(seen));
  if (url.pathname === '/faults') {
    const fault = JSON.parse(body.toString()) as Fault;
    faults.push({ fault, left: fault.times });
    return void response.end();
  }
  try {
    checkUser(request);
    const call = callOf(request, url, body);
    const fault = takeFault(call.query);
    const failed = fault !== undefined;
    const rows = call.rows === '' ? '' : createHash('sha256').update(call.rows).digest('hex');
    seen.push({ query: call.query.slice(0, 200), rows, settings: call.settings, failed });
    if (fault?.kind === 'reset-before') return void request.socket.destroy();
    if (fault?.kind === 'page') {
      response.writeHead(503, { 'Content-Type': 'text/html' });
      return void response.end('<html><body>503 Service Unavailable</body></html>');
    }
    if (fault?.kind === 'exception') throw new EngineError(fault.code!, 'INJECTED', 'injected');
    const result = await engine.run(call);
    if (fault?.kind === 'reset-after') return void request.socket.destroy();
    if (fault?.kind === 'slow') await Bun.sleep(fault.delayMs!);
    send(request, response, { status: 200, headers: {}, body: result });
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    const headers = { 'X-ClickHouse-Exception-Code': String(error.code) };
    send(request, response, {
      status: error.code === 516 ? 403 : error.code === 60 ? 404 : 500,
      headers,
      body: Buffer.from(error.message),
    });
  }
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  answer: { status: number; headers: Record<string, string>; body: Uint8Array },
): void {
  const isCompressed =
    /enable_http_compression=1/.test(request.url!) &&
    String(request.headers['accept-encoding'] ?? '').includes('gzip');
  const body = isCompressed ? gzipSync(answer.body) : answer.body;
  response.writeHead(answer.status, {
    ...answer.headers,
    ...(isCompressed ? { 'Content-Encoding': 'gzip' } : {}),
    'Content-Length': String(body.length),
  });
  response.end(body);
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  return request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
}

function checkUser(request: IncomingMessage): void {
  const given = request.headers.authorization ?? '';
  if (given === `Basic ${Buffer.from(`${USER}:${PASSWORD}`).toString('base64')}`) return;
  throw new EngineError(516, 'AUTHENTICATION_FAILED', 'password is incorrect, or no such user');
}

function callOf(request: IncomingMessage, url: URL, body: Buffer): Call {
  if (request.url!.length > MAX_URI_BYTES) throw new EngineError(1000, 'POCO', 'URI too long');
  const fields = { ...Object.fromEntries(url.searchParams), ...formFields(request, body) };
  const isForm = isMultipart(request);
  const params: Record<string, string> = {};
  const settings: Record<string, string> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (Buffer.byteLength(value) > MAX_FIELD_BYTES) {
      throw new EngineError(1000, 'POCO_EXCEPTION', 'HTML Form Exception: Field value too long');
    }
    if (name.startsWith('param_')) params[name.slice('param_'.length)] = value;
    else if (!NO_SETTINGS.has(name)) settings[name] = value;
  }
  const inUrl = url.searchParams.get('query');
  const text = body.toString();
  const query = isForm ? fields.query! : (inUrl ?? text);
  const rows = !isForm && inUrl !== null ? text : '';
  const { database = 'default', default_format: format = 'TabSeparated' } = fields;
  return { query, rows, params, settings, database, format };
}

const isMultipart = (request: IncomingMessage): boolean =>
  (request.headers['content-type'] ?? '').startsWith('multipart/form-data');

function formFields(request: IncomingMessage, body: Buffer): Record<string, string> {
  if (!isMultipart(request)) return {};
  const boundary = /boundary=(.+)$/.exec(request.headers['content-type']!)![1]!;
  const fields: Record<string, string> = {};
  for (const part of body.toString().split(`--${boundary}`).slice(1, -1)) {
    const end = part.indexOf('\r\n\r\n');
    const name = /name="([^"]+)"/.exec(part.slice(0, end))![1]!;
    fields[name] = part.slice(end + 4, -2);
  }
  return fields;
}

function takeFault(query: string): Fault | undefined {
  const found = faults.find(({ fault, left }) => left > 0 && query.includes(fault.match));
  if (found === undefined) return undefined;
  found.left--;
  return found.fault;
}

const [dir, port] = process.argv.slice(2);
await serve(dir!, Number(port));
