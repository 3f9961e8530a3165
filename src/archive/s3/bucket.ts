/**
 * Requests to one bucket: each with a time limit and retries, none with a meaning beyond itself.
 *
 * Throws the client's own errors; `failures.ts` tells what they are. Every request here may be sent
 * twice, because the answer to the first may be lost: what that does to a put is up to the caller.
 */
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandInput,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { sha256Hex } from '../checksum.ts';
import { Interrupted, isKind } from './failures.ts';
import { type Attempt, type RetryPolicy, retrying, within } from './retry.ts';

export interface BucketOptions {
  readonly bucket: string;
  /** Empty: what the environment says, or AWS. */
  readonly endpoint: string;
  /** Empty: what the environment or the profile says. */
  readonly region: string;
  readonly forcePathStyle: boolean;
  readonly attemptTimeoutMs: number;
  readonly retry: RetryPolicy;
}

export interface Page {
  readonly objects: readonly { readonly key: string; readonly sizeBytes: number }[];
  /** Common prefixes, when the listing stops at slashes. */
  readonly folders: readonly string[];
  /** Null on the last page. */
  readonly next: string | null;
}

/** Where a listing goes on: behind a key, or with the page that the one before has named. */
export type ListFrom = { readonly key: string } | { readonly page: string };

export interface OpenUpload {
  readonly key: string;
  readonly uploadId: string;
  readonly initiatedMs: number;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** A body may come as slowly as this before an attempt is given up. */
const MIN_BYTES_PER_MS = 500;
const NO_OVERWRITE = { IfNoneMatch: '*' } as const;

export class Bucket {
  readonly name: string;
  readonly #client: S3Client;
  readonly #options: BucketOptions;

  constructor(options: BucketOptions) {
    this.name = options.bucket;
    this.#options = options;
    this.#client = new S3Client(clientConfig(options));
  }

  /** With `ifAbsent`, fails with `exists` when the key is taken; the server decides. */
  async put(key: string, bytes: Uint8Array, ifAbsent: boolean): Promise<void> {
    const body = { Body: bytes, ChecksumSHA256: await sha256Base64(bytes) };
    const condition = ifAbsent ? NO_OVERWRITE : {};
    const input = { Bucket: this.name, Key: key, ...body, ...condition };
    await this.#send(async ({ signal, extend }) => {
      extend(this.#timeoutFor(bytes.length));
      const command = new PutObjectCommand(input);
      requireTag(await this.#client.send(command, { abortSignal: signal }));
    });
  }

  /** Null when there is none. */
  async get(key: string): Promise<Uint8Array | null> {
    const input = { Bucket: this.name, Key: key };
    return orNull(() =>
      this.#send(async ({ signal, extend }) => {
        const command = new GetObjectCommand(input);
        const answer = await this.#client.send(command, { abortSignal: signal });
        requireTag(answer);
        extend(this.#timeoutFor(answer.ContentLength ?? 0));
        const bytes = await bodyOf(answer);
        return bytes;
      }),
    );
  }

  /** The tag of what is there now, or null. */
  async tagOf(key: string): Promise<string | null> {
    const input = { Bucket: this.name, Key: key };
    return orNull(() =>
      this.#send(async ({ signal }) => {
        const command = new HeadObjectCommand(input);
        return requireTag(await this.#client.send(command, { abortSignal: signal }));
      }),
    );
  }

  /**
   * Removes the key if it still holds what `tag` stands for. One that holds something else now, or
   * nothing, is left as it is. Servers that do not know this condition remove what is there.
   */
  async remove(key: string, tag: string): Promise<void> {
    const input = { Bucket: this.name, Key: key };
    const remove = (condition: { IfMatch?: string }) =>
      this.#send(async ({ signal }) => {
        const command = new DeleteObjectCommand({ ...input, ...condition });
        const { $metadata } = await this.#client.send(command, { abortSignal: signal });
        return $metadata.httpStatusCode === 204;
      });
    try {
      if (await remove({ IfMatch: tag })) return;
      if ((await this.tagOf(key)) === tag) throw new Interrupted('a removal that removed nothing');
    } catch (error) {
      if (isKind(error, 'unsupported')) await orNull(() => remove({}));
      else if (!isKind(error, 'missing') && !isKind(error, 'exists')) throw error;
    }
  }

  async list(prefix: string, atSlash: boolean, from: ListFrom): Promise<Page> {
    const input = {
      Bucket: this.name,
      Prefix: prefix,
      ...(atSlash ? { Delimiter: '/' } : {}),
      ...('page' in from ? { ContinuationToken: from.page } : {}),
      // An empty one is none.
      ...('key' in from && from.key !== '' ? { StartAfter: from.key } : {}),
    };
    return this.#send(async ({ signal }) => {
      const command = new ListObjectsV2Command(input);
      const page = await this.#client.send(command, { abortSignal: signal });
      const { Contents = [], CommonPrefixes = [], NextContinuationToken } = page;
      // Anything that is no listing would read as an empty one: the page must say whether it is all.
      if (page.IsTruncated === undefined) throw new Interrupted('an answer that is no listing');
      if (page.IsTruncated && !NextContinuationToken) {
        throw new Interrupted('a listing that goes on, but does not say where');
      }
      return {
        objects: Contents.map(({ Key = '', Size = 0 }) => ({ key: Key, sizeBytes: Size })),
        folders: CommonPrefixes.map(({ Prefix = '' }) => Prefix),
        next: page.IsTruncated ? (NextContinuationToken ?? null) : null,
      };
    });
  }

  async beginUpload(key: string): Promise<string> {
    const input = { Bucket: this.name, Key: key, ChecksumAlgorithm: 'SHA256' } as const;
    return this.#send(async ({ signal }) => {
      const command = new CreateMultipartUploadCommand(input);
      const { UploadId } = await this.#client.send(command, { abortSignal: signal });
      if (UploadId === undefined) throw new Interrupted('an upload without an id');
      return UploadId;
    });
  }

  async uploadPart(
    upload: { readonly key: string; readonly uploadId: string },
    partNumber: number,
    bytes: Uint8Array,
  ): Promise<CompletedPart> {
    const checksum = await sha256Base64(bytes);
    const input = {
      Bucket: this.name,
      Key: upload.key,
      UploadId: upload.uploadId,
      PartNumber: partNumber,
      Body: bytes,
      ChecksumSHA256: checksum,
    };
    return this.#send(async ({ signal, extend }) => {
      extend(this.#timeoutFor(bytes.length));
      const command = new UploadPartCommand(input);
      const tag = requireTag(await this.#client.send(command, { abortSignal: signal }));
      return { PartNumber: partNumber, ETag: tag, ChecksumSHA256: checksum };
    });
  }

  async completeUpload(
    upload: { readonly key: string; readonly uploadId: string },
    parts: readonly CompletedPart[],
    ifAbsent: boolean,
  ): Promise<void> {
    const input = {
      Bucket: this.name,
      Key: upload.key,
      UploadId: upload.uploadId,
      MultipartUpload: { Parts: [...parts] },
      ...(ifAbsent ? NO_OVERWRITE : {}),
    };
    await this.#send(async ({ signal }) => {
      const command = new CompleteMultipartUploadCommand(input);
      requireTag(await this.#client.send(command, { abortSignal: signal }));
    });
  }

  async abortUpload(upload: { readonly key: string; readonly uploadId: string }): Promise<void> {
    const input = { Bucket: this.name, Key: upload.key, UploadId: upload.uploadId };
    await this.#send(({ signal }) =>
      this.#client.send(new AbortMultipartUploadCommand(input), { abortSignal: signal }),
    );
  }

  async *openUploads(prefix: string): AsyncGenerator<OpenUpload> {
    let input: ListMultipartUploadsCommandInput = { Bucket: this.name, Prefix: prefix };
    for (;;) {
      const page: ListMultipartUploadsCommandOutput = await this.#listUploads(input);
      for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
        if (Key === undefined || UploadId === undefined || Initiated === undefined) continue;
        yield { key: Key, uploadId: UploadId, initiatedMs: Initiated.getTime() };
      }
      const { IsTruncated, NextKeyMarker, NextUploadIdMarker } = page;
      if (IsTruncated !== true || NextKeyMarker === undefined) return;
      input = { ...input, KeyMarker: NextKeyMarker, UploadIdMarker: NextUploadIdMarker };
    }
  }

  #listUploads(
    input: ListMultipartUploadsCommandInput,
  ): Promise<ListMultipartUploadsCommandOutput> {
    return this.#send(({ signal }) =>
      this.#client.send(new ListMultipartUploadsCommand(input), { abortSignal: signal }),
    );
  }

  #timeoutFor(sizeBytes: number): number {
    return this.#options.attemptTimeoutMs + sizeBytes / MIN_BYTES_PER_MS;
  }

  #send<T>(work: (attempt: Attempt) => Promise<T>): Promise<T> {
    const { retry, attemptTimeoutMs } = this.#options;
    const isPassing = (error: unknown) => isKind(error, 'passing');
    return retrying(retry, isPassing, () => within(attemptTimeoutMs, work));
  }
}

function clientConfig({ endpoint, region, forcePathStyle }: BucketOptions): S3ClientConfig {
  return {
    ...(endpoint === '' ? {} : { endpoint }),
    ...(region === '' ? {} : { region }),
    forcePathStyle,
    // Retries are ours: their waits and chance are handed in.
    maxAttempts: 1,
    // Checksums are given with each object; others only where the protocol asks for one.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_SUPPORTED',
    requestHandler: { connectionTimeout: CONNECT_TIMEOUT_MS },
  };
}

/**
 * Every answer about an object carries its tag. One without may come from anything between here and
 * the server that says 200 to everything, and must not be taken for the object.
 */
function requireTag({ ETag }: { readonly ETag?: string | undefined }): string {
  if (ETag === undefined) throw new Interrupted('an answer that is not about the object');
  return ETag;
}

async function bodyOf({ Body, ContentLength }: GetObjectCommandOutput): Promise<Uint8Array> {
  let bytes: Uint8Array;
  try {
    bytes = (await Body?.transformToByteArray()) ?? new Uint8Array();
  } catch (cause) {
    // The connection broke, or the bytes do not have the checksum that the server keeps for them.
    throw new Interrupted(cause instanceof Error ? cause.message : String(cause), { cause });
  }
  if (ContentLength !== undefined && bytes.length !== ContentLength) {
    throw new Interrupted(`${bytes.length} bytes came of ${ContentLength}`);
  }
  return bytes;
}

async function orNull<T>(work: () => Promise<T>): Promise<T | null> {
  try {
    return await work();
  } catch (error) {
    if (isKind(error, 'missing')) return null;
    throw error;
  }
}

async function sha256Base64(bytes: Uint8Array): Promise<string> {
  return Buffer.from(await sha256Hex(bytes), 'hex').toString('base64');
}
