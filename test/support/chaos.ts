/**
 * Lets roles and servers die or hang at random, several at a time, and mends all of it in the end.
 * What it did is in `told`; with the same seed it does the same again, but for what time decides.
 */
import type { Random } from '../../src/demo/random.ts';
import { monotonicMs } from '../../src/platform/clock.ts';
import type { Placed, RoleCluster } from './role-cluster.ts';
import type { RoleServers } from './role-servers.ts';

const AT_ONCE = 3;

export interface ChaosOptions {
  readonly cluster: RoleCluster;
  readonly servers: RoleServers;
  readonly random: Random;
  /** A group gives up a member that it has not heard of for so long. */
  readonly sessionMs: number;
}

interface Fault {
  readonly what: string;
  /** Faults of one kind come one after the other: two brokers are always there. */
  readonly kind: string;
  readonly forMs: number;
  take(): void | Promise<void>;
  giveBack(): void | Promise<void>;
}

const VICTIMS: readonly Placed[] = [
  ['m1', 'click'],
  ['m2', 'click'],
  ['m1', 'archiver'],
  ['m2', 'archiver'],
  ['m1', 'reconciler'],
  ['m2', 'reconciler'],
];

export class Chaos {
  readonly told: string[] = [];
  readonly #cluster: RoleCluster;
  readonly #servers: RoleServers;
  readonly #random: Random;
  readonly #sessionMs: number;
  readonly #startedMs = monotonicMs();
  /** Faults that are not mended, by kind. */
  readonly #open = new Map<string, Promise<void>>();

  constructor({ cluster, servers, random, sessionMs }: ChaosOptions) {
    this.#cluster = cluster;
    this.#servers = servers;
    this.#random = random;
    this.#sessionMs = sessionMs;
  }

  /** So many faults, while one counter becomes three and then two. */
  async run(events: number): Promise<void> {
    for (let event = 0; event < events; event++) {
      if (event === Math.floor(events / 4)) this.#grow();
      if (event === Math.floor((events * 3) / 4)) this.#shrink();
      while (this.#open.size >= AT_ONCE) await Promise.race(this.#open.values());
      const fault = this.#next();
      if (this.#open.has(fault.kind)) continue;
      const over = this.#suffer(fault).finally(() => this.#open.delete(fault.kind));
      this.#open.set(fault.kind, over);
      await Bun.sleep(500 + this.#random.below(2_500));
    }
  }

  /** Everything is there again and does its work. */
  async mendAll(): Promise<void> {
    await Promise.all(this.#open.values());
    const running = this.#cluster.roles().filter((each) => each.isRunning);
    await Promise.all(running.map((each) => each.ready(120_000)));
    this.#tell('all is there again');
  }

  #tell(what: string): void {
    this.told.push(`${((monotonicMs() - this.#startedMs) / 1_000).toFixed(1)} s  ${what}`);
  }

  #grow(): void {
    this.#tell('three counters');
    this.#cluster.start('m2', 'counter');
    this.#cluster.start('m3', 'counter');
  }

  #shrink(): void {
    this.#tell('two counters');
    const kind = 'm3/counter';
    const over = (this.#open.get(kind) ?? Promise.resolve())
      .then(() => this.#cluster.role('m3', 'counter')!.stop())
      .then(({ code }) => this.#tell(`m3/counter has stopped with ${code}`))
      .finally(() => this.#open.delete(kind));
    this.#open.set(kind, over);
  }

  async #suffer({ what, forMs, take, giveBack }: Fault): Promise<void> {
    this.#tell(`${what} for ${(forMs / 1_000).toFixed(1)} s`);
    await take();
    await Bun.sleep(forMs);
    await giveBack();
    this.#tell(`${what}: over`);
  }

  #next(): Fault {
    const kinds = [
      () => this.#broker(),
      () => this.#broker(),
      () => this.#counter(),
      () => this.#counter(),
      () => this.#role(this.#random.pick(VICTIMS)),
      () => this.#role(this.#random.pick(VICTIMS)),
      () => this.#role(this.#random.pick(VICTIMS)),
      () => this.#s3(),
      () => this.#clickHouse(),
      () => this.#postgres(),
    ];
    return this.#random.pick(kinds)();
  }

  /** Shorter than a session, or longer. */
  #hangMs(): number {
    const isLong = this.#random.chance(0.4);
    return isLong
      ? this.#sessionMs + 1_500 + this.#random.below(2_000)
      : 500 + this.#random.below(3_000);
  }

  #broker(): Fault {
    const broker = this.#random.pick(this.#servers.kafka.brokers);
    const what = `broker ${broker.nodeId}`;
    if (this.#random.chance(0.5)) {
      const [take, giveBack] = [() => broker.freeze(), () => broker.thaw()];
      return { what: `${what} hangs`, kind: 'broker', forMs: this.#hangMs(), take, giveBack };
    }
    return {
      what: `${what} is killed`,
      kind: 'broker',
      forMs: this.#random.below(4_000),
      take: () => broker.kill(),
      giveBack: async () => {
        broker.start();
        await this.#servers.kafka.ready(broker);
      },
    };
  }

  #counter(): Fault {
    const running = this.#cluster.roles('counter').filter((each) => each.isRunning);
    const machine = this.#random.pick(running)?.name.split('/')[0] ?? 'm1';
    const fault = this.#role([machine, 'counter']);
    if (!fault.what.includes('killed') || this.#random.chance(0.5)) return fault;
    const giveBack = async (): Promise<void> => {
      this.#cluster.loseState(machine);
      await fault.giveBack();
    };
    return { ...fault, what: `${fault.what} and loses its disk`, giveBack };
  }

  #role(placed: Placed): Fault {
    const role = this.#cluster.role(...placed)!;
    const kind = `${placed[0]}/${placed[1]}`;
    if (this.#random.chance(0.4)) {
      const [take, giveBack] = [() => role.freeze(), () => role.thaw()];
      return { what: `${kind} hangs`, kind, forMs: this.#hangMs(), take, giveBack };
    }
    return {
      what: `${kind} is killed`,
      kind,
      forMs: this.#random.below(3_000),
      take: () => role.kill(),
      giveBack: () => role.start(),
    };
  }

  #s3(): Fault {
    const { server } = this.#servers.s3;
    if (this.#random.chance(0.4)) {
      const [take, giveBack] = [() => server.freeze(), () => server.thaw()];
      return { what: 'S3 hangs', kind: 's3', forMs: this.#hangMs(), take, giveBack };
    }
    return {
      what: 'S3 is killed',
      kind: 's3',
      forMs: this.#random.below(2_000),
      take: () => server.crash(),
      giveBack: () => server.start(),
    };
  }

  #clickHouse(): Fault {
    const { clickhouse } = this.#servers;
    if (this.#random.chance(0.4)) {
      const [take, giveBack] = [() => clickhouse.freeze(), () => clickhouse.thaw()];
      return {
        what: 'ClickHouse hangs',
        kind: 'clickhouse',
        forMs: this.#hangMs(),
        take,
        giveBack,
      };
    }
    return {
      what: 'ClickHouse is killed',
      kind: 'clickhouse',
      forMs: this.#random.below(3_000),
      take: () => clickhouse.crash(),
      giveBack: () => clickhouse.start(),
    };
  }

  #postgres(): Fault {
    const { postgres } = this.#servers;
    return {
      what: 'PostgreSQL is killed',
      kind: 'postgres',
      forMs: this.#random.below(5_000),
      take: () => postgres.stop(),
      giveBack: () => postgres.start(),
    };
  }
}
