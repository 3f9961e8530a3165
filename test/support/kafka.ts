/**
 * A real Kafka for tests: one broker or three (KRaft, broker and controller in one process each), on
 * free ports, with its data in a folder of its own that goes with it.
 *
 * Needs Java 17 and Maven. The jars are fetched once into `CLICKLEDGER_TEST_CACHE`, by default a folder
 * below the system's for temporary files. Nothing leaves the machine afterwards.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from './free-ports.ts';
import { tempDir } from './temp-dir.ts';

const VERSION = '4.4.0';
const READY_WITHIN_MS = 120_000;
const CLUSTER_ID = 'Y2xpY2tsZWRnZXItdGVzdA';
/** A day's start of a broker takes seconds; its memory is shared by everything else on the machine. */
const JVM = ['-Xms128m', '-Xmx384m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

export interface KafkaOptions {
  readonly brokers?: 1 | 3;
  /** More lines of `server.properties`, the same for all. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** One more door to the first broker: TLS with its own authority, and a user with a password. */
  readonly secured?: boolean;
}

/** The user of the secured door. */
export const KAFKA_USER = { username: 'clickledger', password: 'a-password' };

export class KafkaBroker {
  readonly nodeId: number;
  readonly address: string;
  readonly #dir: string;
  readonly #classPath: string;
  #process: Bun.Subprocess | null = null;

  constructor(at: { nodeId: number; port: number; dir: string; classPath: string }) {
    this.nodeId = at.nodeId;
    this.address = `127.0.0.1:${at.port}`;
    this.#dir = at.dir;
    this.#classPath = at.classPath;
  }

  /** Begins to start; `ready` of the cluster waits for it. */
  start(): void {
    const properties = join(this.#dir, 'server.properties');
    // Else it would be ready by what it said the last time.
    rmSync(`${this.output}.err`, { force: true });
    this.#process = Bun.spawn(['java', ...JVM, '-cp', this.#classPath, 'kafka.Kafka', properties], {
      stdout: Bun.file(this.output),
      stderr: Bun.file(`${this.output}.err`),
      cwd: this.#dir,
    });
  }

  get output(): string {
    return join(this.#dir, 'output');
  }

  get exitCode(): number | null {
    return this.#process?.exitCode ?? null;
  }

  /** Accepts connections and answers nothing, as a machine that hangs. */
  freeze(): void {
    this.#process?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process?.kill('SIGCONT');
  }

  async kill(): Promise<void> {
    const process = this.#process;
    if (process === null) return;
    this.#process = null;
    process.kill('SIGKILL');
    await process.exited;
  }
}

export class KafkaServers {
  readonly brokers: readonly KafkaBroker[];
  /** Address of the secured door, and the certificate of who signed for it. */
  readonly secured: { readonly address: string; readonly caFile: string } | null;
  readonly #remove: () => void;
  readonly #atExit: () => void;

  private constructor(
    brokers: readonly KafkaBroker[],
    secured: KafkaServers['secured'],
    remove: () => void,
  ) {
    this.brokers = brokers;
    this.secured = secured;
    this.#remove = remove;
    this.#atExit = () => {
      for (const broker of brokers) void broker.kill();
    };
    process.once('exit', this.#atExit);
  }

  /** Addresses for a client. */
  get addresses(): string[] {
    return this.brokers.map(({ address }) => address);
  }

  static async start(options: KafkaOptions = {}): Promise<KafkaServers> {
    const classPath = `${await installed()}/*`;
    const dir = tempDir('kafka');
    const count = options.brokers ?? 1;
    const ports = freePorts(count * 2 + 1);
    const door = options.secured === true ? await securedDoor(dir.path, ports[count * 2]!) : null;
    const quorum = Array.from(
      { length: count },
      (_, i) => `${i + 1}@127.0.0.1:${ports[count + i]}`,
    );
    const brokers = await Promise.all(
      quorum.map(async (_, i) => {
        const own = join(dir.path, `broker-${i + 1}`);
        mkdirSync(own);
        const at = { nodeId: i + 1, port: ports[i]!, controllerPort: ports[count + i]! };
        writeFileSync(
          join(own, 'server.properties'),
          propertiesOf({ ...at, dir: own, quorum, settings: options.settings ?? {}, door }),
        );
        await format(classPath, own);
        return new KafkaBroker({ nodeId: at.nodeId, port: at.port, dir: own, classPath });
      }),
    );
    const servers = new KafkaServers(brokers, door, dir.remove);
    for (const broker of brokers) broker.start();
    try {
      for (const broker of brokers) await servers.ready(broker);
    } catch (error) {
      await servers.stop();
      throw error;
    }
    return servers;
  }

  /** Waits until a broker that was started answers its clients. */
  async ready(broker: KafkaBroker): Promise<void> {
    const deadlineMs = Date.now() + READY_WITHIN_MS;
    while (Date.now() < deadlineMs) {
      const output = await Bun.file(`${broker.output}.err`)
        .text()
        .catch(() => '');
      if (output.includes('Kafka Server started')) return;
      if (broker.exitCode !== null) throw new Error(`the broker ended\n${output.slice(-2_000)}`);
      await Bun.sleep(100);
    }
    throw new Error(`Kafka was not ready within ${READY_WITHIN_MS} ms`);
  }

  async stop(): Promise<void> {
    for (const broker of this.brokers) await broker.kill();
    process.off('exit', this.#atExit);
    this.#remove();
  }
}

function propertiesOf(broker: {
  nodeId: number;
  port: number;
  controllerPort: number;
  dir: string;
  quorum: readonly string[];
  settings: Readonly<Record<string, string | number>>;
  door: SecuredDoor | null;
}): string {
  const replicas = broker.quorum.length;
  const door = broker.nodeId === 1 ? broker.door : null;
  const secured = door === null ? '' : `,SECURED://${door.address}`;
  const client = `PLAINTEXT://127.0.0.1:${broker.port}${secured}`;
  const settings: Record<string, string | number> = {
    'process.roles': 'broker,controller',
    'node.id': broker.nodeId,
    listeners: `${client},CONTROLLER://127.0.0.1:${broker.controllerPort}`,
    'advertised.listeners': client,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL',
    'controller.quorum.voters': broker.quorum.join(','),
    'log.dirs': join(broker.dir, 'data'),
    'auto.create.topics.enable': 'false',
    'offsets.topic.replication.factor': replicas,
    'offsets.topic.num.partitions': 4,
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.min.isr': 1,
    'group.initial.rebalance.delay.ms': 0,
    // A dead broker is noticed within seconds instead of half a minute.
    'broker.heartbeat.interval.ms': 500,
    'broker.session.timeout.ms': 3_000,
    'replica.lag.time.max.ms': 3_000,
    'replica.fetch.wait.max.ms': 100,
    'log.initial.task.delay.ms': 500,
    'log.retention.check.interval.ms': 500,
    ...door?.settings,
    ...broker.settings,
  };
  return Object.entries(settings)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('');
}

interface SecuredDoor {
  readonly address: string;
  readonly caFile: string;
  readonly settings: Readonly<Record<string, string>>;
}

/** An authority and a certificate for localhost, made for this run, and the broker's lines for them. */
async function securedDoor(dir: string, port: number): Promise<SecuredDoor> {
  const file = (name: string): string => join(dir, name);
  writeFileSync(file('names'), 'subjectAltName=DNS:localhost,IP:127.0.0.1');
  const newKey = ['-newkey', 'rsa:2048', '-nodes'];
  await openssl(
    ...['req', '-x509', ...newKey, '-days', '2', '-subj', '/CN=test authority'],
    ...['-keyout', file('ca.key'), '-out', file('ca.pem')],
  );
  await openssl(
    ...['req', ...newKey, '-subj', '/CN=localhost', '-keyout', file('key'), '-out', file('csr')],
  );
  await openssl(
    ...['x509', '-req', '-in', file('csr'), '-CA', file('ca.pem'), '-CAkey', file('ca.key')],
    ...['-CAcreateserial', '-days', '2', '-extfile', file('names'), '-out', file('cert.pem')],
  );
  writeFileSync(
    file('store.pem'),
    `${readFileSync(file('key'))}\n${readFileSync(file('cert.pem'))}`,
  );
  const { username, password } = KAFKA_USER;
  const user = `username="${username}" password="${password}" user_${username}="${password}"`;
  return {
    address: `localhost:${port}`,
    caFile: file('ca.pem'),
    settings: {
      'sasl.enabled.mechanisms': 'PLAIN',
      'listener.name.secured.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required ${user};`,
      'listener.name.secured.ssl.keystore.type': 'PEM',
      'listener.name.secured.ssl.keystore.location': file('store.pem'),
    },
  };
}

async function openssl(...args: string[]): Promise<void> {
  const tool = Bun.spawn(['openssl', ...args], { stdout: 'ignore', stderr: 'pipe' });
  if ((await tool.exited) !== 0) throw new Error(await new Response(tool.stderr).text());
}

async function format(classPath: string, dir: string): Promise<void> {
  const tool = Bun.spawn(
    [
      ...['java', ...JVM, '-cp', classPath, 'kafka.tools.StorageTool', 'format'],
      ...['-t', CLUSTER_ID, '-c', join(dir, 'server.properties')],
    ],
    { stdout: 'pipe', stderr: 'pipe', cwd: dir },
  );
  if ((await tool.exited) !== 0) {
    throw new Error(
      `Kafka's storage cannot be formatted: ${await new Response(tool.stderr).text()}`,
    );
  }
}

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>clickledger.test</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.25.3</version></dependency>
  </dependencies>
</project>
`;

/** The folder of the jars, which are fetched when they are not there yet. */
async function installed(): Promise<string> {
  const cache = process.env.CLICKLEDGER_TEST_CACHE ?? join(tmpdir(), 'clickledger-test-cache');
  const home = join(cache, `kafka-${VERSION}`);
  if (existsSync(home)) return home;
  mkdirSync(cache, { recursive: true });
  const half = mkdtempSync(join(cache, 'installing-'));
  writeFileSync(join(half, 'pom.xml'), POM);
  const maven = Bun.spawn(
    ['mvn', '-B', '-q', 'dependency:copy-dependencies', `-DoutputDirectory=${half}`],
    { cwd: half, stdout: 'inherit', stderr: 'inherit' },
  );
  if ((await maven.exited) !== 0) throw new Error('Kafka cannot be fetched with Maven');
  try {
    renameSync(half, home);
  } catch (error) {
    // Another test run was faster.
    rmSync(half, { recursive: true, force: true });
    if (!existsSync(home)) throw error;
  }
  return home;
}
