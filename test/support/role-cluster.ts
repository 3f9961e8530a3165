/**
 * The product on many machines: roles as processes of their own, which share nothing but the servers
 * of `role-servers.ts`. A machine is a data folder with the roles that are started on it.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SQL } from 'bun';
import type { LedgerStatus, PartitionStatus } from '../../src/api/admin-port.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { dataPaths } from '../../src/config/paths.ts';
import { DEMO_ADS } from '../../src/demo/ads.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { ADVERTISERS, type AnswerView, offsetPast, startOfHour } from './answers.ts';
import { freePorts } from './free-ports.ts';
import type { LoadTarget } from './load.ts';
import { type CommandResult, environment, eventually, runCommand } from './product.ts';
import { type RoleName, RoleProcess } from './role-process.ts';
import type { RoleServers } from './role-servers.ts';
import { tempDir } from './temp-dir.ts';

export interface ClusterOptions {
  readonly partitions?: number;
  /** More settings of all roles and commands. */
  readonly env?: Readonly<Record<string, string>>;
  /** Keys and tokens come from elsewhere. */
  readonly withoutKeys?: boolean;
}

/** A role to start, and on which machine. */
export type Placed = readonly [machine: string, role: RoleName, index?: number];

export interface Machine {
  readonly name: string;
  readonly dataDir: string;
  readonly clickUrl: string;
}

/** Where commands are run: a machine without roles, as an operator's is. */
const OPERATOR = 'operator';
const SETTLED_MS = 120_000;
const ADS_TABLE = `
  CREATE TABLE ads (ad_id text PRIMARY KEY, advertiser_id text NOT NULL, campaign_id text NOT NULL,
    target_url text NOT NULL, pass_query boolean NOT NULL DEFAULT false,
    updated_at timestamptz NOT NULL DEFAULT now());
  CREATE INDEX ON ads (updated_at, ad_id)`;

const FAST = {
  CLICKLEDGER_LOG_LEVEL: 'warn',
  CLICKLEDGER_CLICK_TRUSTED_PROXIES: '1',
  CLICKLEDGER_CLICK_WORKERS: '1',
  CLICKLEDGER_ARCHIVE_ROTATE_MS: '1000',
  CLICKLEDGER_COUNTER_UPSERT_INTERVAL_MS: '300',
  CLICKLEDGER_RECONCILE_INTERVAL_MS: '1000',
  // Tests ask in a loop until something is so.
  CLICKLEDGER_API_RATE_LIMIT_PER_MINUTE: '0',
};

let clusters = 0;

export class RoleCluster implements LoadTarget {
  /** Of the topic, the databases and the prefix. */
  readonly name: string;
  readonly fromMs = startOfHour(systemClock());
  /** Advertiser → token that reads its numbers. */
  tokens = new Map<string, string>();
  key = { kid: '', secret: '' };
  adminToken = '';
  /** Of everything that is started from now on. */
  clockOffsetMs = 0;
  readonly #servers: RoleServers;
  readonly #settings: Readonly<Record<string, string>>;
  readonly #home = tempDir('machines');
  readonly #machines = new Map<string, Machine>();
  readonly #roles = new Map<string, RoleProcess>();

  private constructor(servers: RoleServers, name: string, settings: Record<string, string>) {
    this.#servers = servers;
    this.name = name;
    this.#settings = settings;
  }

  /** With ads and a topic, a key and tokens; no role is started. */
  static async create(servers: RoleServers, options: ClusterOptions = {}): Promise<RoleCluster> {
    const name = `machines_${++clusters}`;
    const settings = await servers.settingsOf(name, options.partitions ?? 8);
    const cluster = new RoleCluster(servers, name, { ...settings, ...FAST, ...options.env });
    await cluster.#insertAds();
    await cluster.do('kafka', 'create-topic');
    if (options.withoutKeys !== true) await cluster.#makeKeys();
    return cluster;
  }

  async #makeKeys(): Promise<void> {
    const made = await this.do('key', 'create', 'k1');
    const [, kid = '', secret = ''] = /^kid +(\S+)\nsecret +(\S+)$/m.exec(made) ?? [];
    this.key = { kid, secret };
    for (const advertiserId of ADVERTISERS) {
      const token = await this.do('token', 'create', '--advertiser', advertiserId);
      this.tokens.set(advertiserId, token.trim());
    }
    await this.makeAdmin();
  }

  async makeAdmin(): Promise<void> {
    this.adminToken = (await this.do('token', 'create', '--admin')).trim();
  }

  async #insertAds(): Promise<void> {
    const sql = new SQL(this.#settings.CLICKLEDGER_CATALOG_POSTGRES_URL!, { max: 1 });
    try {
      await sql.unsafe(ADS_TABLE);
      for (const { adId, advertiserId, campaignId, targetUrl, passQuery } of DEMO_ADS) {
        await sql`INSERT INTO ads VALUES (${adId}, ${advertiserId}, ${campaignId}, ${targetUrl}, ${passQuery})`;
      }
    } finally {
      await sql.close();
    }
  }

  /** Made when it is first named. */
  machine(name: string): Machine {
    const known = this.#machines.get(name);
    if (known !== undefined) return known;
    const dataDir = join(this.#home.path, name, 'data');
    mkdirSync(dataDir, { recursive: true });
    const clickUrl = `http://127.0.0.1:${freePorts(1)[0]}`;
    const made = { name, dataDir, clickUrl };
    this.#machines.set(name, made);
    return made;
  }

  /** Starts the role, or starts it again: under its name, on its folder and ports. */
  start(...[machine, role, index = 0]: Placed): RoleProcess {
    const process = this.role(machine, role, index) ?? this.#place(machine, role, index);
    process.start();
    return process;
  }

  role(...[machine, role, index = 0]: Placed): RoleProcess | undefined {
    return this.#roles.get(`${machine}/${role}-${index}`);
  }

  #place(machineName: string, role: RoleName, index: number): RoleProcess {
    const { dataDir, clickUrl } = this.machine(machineName);
    const name = `${machineName}/${role}-${index}`;
    const url = role === 'click' ? clickUrl : `http://127.0.0.1:${freePorts(1)[0]}`;
    const { port } = new URL(url);
    const args: string[] = [role, '--data', dataDir];
    if (role === 'click' || role === 'counter') args.push('--index', String(index));
    args.push(
      role === 'click' ? '--click-port' : role === 'api' ? '--api-port' : '--role-port',
      port,
    );
    const env = (): Record<string, string> => ({
      ...this.#environment(),
      CLICKLEDGER_ROLE_INSTANCE: machineName,
    });
    const logPath = join(this.#home.path, machineName, `${role}-${index}.log`);
    const process = new RoleProcess({ name, role, args, env, url, logPath });
    this.#roles.set(name, process);
    return process;
  }

  /** Starts them and waits until each does its work. */
  async startAll(placed: readonly Placed[], withinMs?: number): Promise<void> {
    const started = placed.map((each) => this.start(...each));
    await Promise.all(started.map((each) => each.ready(withinMs)));
  }

  /** Those that were ever started. */
  roles(...names: RoleName[]): RoleProcess[] {
    return [...this.#roles.values()].filter(
      ({ role }) => names.length === 0 || names.includes(role),
    );
  }

  /** As a service manager does on a shutdown: clicks first. All end with code 0. */
  async stopAll(): Promise<void> {
    const isRunning = (each: RoleProcess): boolean => each.isRunning;
    const click = this.roles('click').filter(isRunning);
    for (const part of [
      click,
      this.roles().filter((each) => isRunning(each) && !click.includes(each)),
    ]) {
      const ended = await Promise.all(
        part.map(async (each) => [each.name, await each.stop()] as const),
      );
      const wrong = ended.filter(([, { code }]) => code !== 0);
      if (wrong.length > 0) throw new Error(`ended wrongly: ${JSON.stringify(wrong)}`);
    }
  }

  /** Starts all that run again, after the end of the hour, and without what takes clicks. */
  async moveBehind(hourEndMs: number): Promise<void> {
    const again = this.roles().filter(({ isRunning, role }) => isRunning && role !== 'click');
    await this.stopAll();
    this.clockOffsetMs = Math.round(offsetPast(hourEndMs));
    for (const each of again) each.start();
    await Promise.all(again.map((each) => each.ready()));
  }

  /** A counter's disk is lost: it has to begin with what the others can know. */
  loseState(machine: string): void {
    rmSync(dataPaths(this.machine(machine).dataDir).counterState, { recursive: true, force: true });
  }

  /** Roles that ended without being told to. */
  get endedByThemselves(): string[] {
    return this.roles().flatMap(({ name, endedByItself }) =>
      endedByItself.map((code) => `${name} ended with ${code}`),
    );
  }

  get clickUrls(): string[] {
    return this.roles('click').map(({ url }) => url);
  }

  /** What an API says; of the first one unless another is named. */
  view(api: RoleProcess = this.roles('api')[0]!): AnswerView {
    return { apiUrl: api.url, tokens: this.tokens, fromMs: this.fromMs };
  }

  run(...args: string[]): Promise<CommandResult> {
    return this.#runOn(this.machine(OPERATOR).dataDir, args);
  }

  #runOn(dataDir: string, args: readonly string[]): Promise<CommandResult> {
    return runCommand([...args, '--data', dataDir], this.#environment());
  }

  /** Runs a command that must succeed; returns what it printed. */
  do(...args: string[]): Promise<string> {
    return this.doOn(this.machine(OPERATOR).dataDir, ...args);
  }

  /** The same on another data folder. */
  async doOn(dataDir: string, ...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.#runOn(dataDir, args);
    if (code !== 0) throw new Error(`"${args.join(' ')}" ended with ${code}: ${stdout}${stderr}`);
    return stdout;
  }

  #environment(): Record<string, string> {
    const offset = { CLICKLEDGER_CLOCK_OFFSET_MS: String(this.clockOffsetMs) };
    return environment({ ...this.#settings, ...offset });
  }

  async status(): Promise<LedgerStatus> {
    const response = await fetch(`${this.view().apiUrl}/v1/admin/status`, {
      headers: { Authorization: `Bearer ${this.adminToken}` },
    });
    if (!response.ok) throw new Error(`the status: ${response.status} ${await response.text()}`);
    return (await response.json()) as LedgerStatus;
  }

  /** Waits until all clicks that were taken are in the log, in the live rows, and archived. */
  async awaitCounted(): Promise<LedgerStatus> {
    const clicks = this.roles('click').filter(({ isRunning }) => isRunning);
    await eventually(
      'nothing is in a spool',
      async () => {
        const left = clicks.map((each) => each.metric('spool_backlog_records'));
        return (await Promise.all(left)).every((records) => records === 0);
      },
      SETTLED_MS,
    );
    const isDone = ({ logEndOffset, countedOffset, archivedOffset }: PartitionStatus): boolean =>
      logEndOffset === countedOffset && logEndOffset === archivedOffset;
    const { nowMs: calledMs } = await this.status();
    let status: LedgerStatus | null = null;
    try {
      await eventually(
        'everything in the log is counted and archived',
        async () => {
          status = await this.status();
          return status.asOfMs >= calledMs && status.partitions.every(isDone);
        },
        SETTLED_MS,
      );
    } catch (error) {
      throw new Error(`${String(error)}: ${JSON.stringify(status, null, 1)}`);
    }
    return status!;
  }

  openArchive(): Promise<ObjectStore> {
    return this.#servers.s3.open({ prefix: this.name });
  }

  async dispose(): Promise<void> {
    for (const each of this.#roles.values()) await each.dispose();
    this.#home.remove();
  }
}
