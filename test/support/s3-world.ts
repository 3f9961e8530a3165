/** A real S3 server with one bucket, and stores on it. */
import type { S3Client } from '@aws-sdk/client-s3';
import type { ObjectStore } from '../../src/archive/port.ts';
import { openS3Store, type S3StoreOptions } from '../../src/archive/s3/store.ts';
import { clientOf, makeBucket, OWNER, SeaweedFs } from './seaweedfs.ts';

export const BUCKET = 'archive-bucket';

export class S3World {
  readonly server: SeaweedFs;
  #prefixes = 0;

  private constructor(server: SeaweedFs) {
    this.server = server;
  }

  static async start(): Promise<S3World> {
    useCredentials(OWNER);
    const server = await SeaweedFs.create();
    await makeBucket(server.endpoint, BUCKET);
    return new S3World(server);
  }

  /** No other test of this world writes below it. */
  freshPrefix(): string {
    return `test-${this.#prefixes++}`;
  }

  open(over: Partial<S3StoreOptions> = {}): Promise<ObjectStore> {
    return openS3Store({
      bucket: BUCKET,
      prefix: '',
      endpoint: this.server.endpoint,
      region: 'us-east-1',
      forcePathStyle: true,
      conditionalPut: true,
      clock: Date.now,
      random: Math.random,
      ...over,
    });
  }

  /** A plain client, past the store. */
  get raw(): S3Client {
    return clientOf(this.server.endpoint);
  }

  stop(): Promise<void> {
    return this.server.stop();
  }
}

/** The store finds credentials where an operator puts them. */
export function useCredentials(keys: typeof OWNER): void {
  process.env.AWS_ACCESS_KEY_ID = keys.accessKeyId;
  process.env.AWS_SECRET_ACCESS_KEY = keys.secretAccessKey;
}
