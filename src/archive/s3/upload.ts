/**
 * Objects that are too large for one request, in parts.
 *
 * The effects of one upload, and what holds if the process dies after each:
 *
 *   U1 the upload is begun     nothing is stored; the server keeps an upload that nobody finishes
 *   U2 the parts               the same; the parts cost storage until the upload is aborted
 *   U3 the upload is completed the object is there, whole, or the name was taken and it is not
 *
 * What U1 and U2 leave is aborted here at the next start when it is a day old, and by the bucket's
 * lifecycle rule.
 */
import type { CompletedPart } from '@aws-sdk/client-s3';
import type { Bucket } from './bucket.ts';
import { failureOf, isKind } from './failures.ts';

/** Larger objects go in parts of this size. */
export const PART_BYTES = 16 * 1024 * 1024;
const PARALLEL_PARTS = 4;
/** No upload takes so long: what is older was left by a process that died. */
export const LEFTOVER_AGE_MS = 24 * 3_600_000;

/**
 * `unclear`: the server does not know the upload any more. It may have completed it and the answer
 * was lost, or somebody has aborted it; only looking at the object tells.
 */
export type UploadOutcome = 'stored' | 'exists' | 'unclear';

export interface Upload {
  readonly key: string;
  readonly bytes: Uint8Array;
  readonly partBytes: number;
  /** Let the server refuse when the key is taken. */
  readonly ifAbsent: boolean;
}

export async function uploadInParts(bucket: Bucket, upload: Upload): Promise<UploadOutcome> {
  const { key, ifAbsent } = upload;
  const begun = { key, uploadId: await bucket.beginUpload(key) }; // U1
  try {
    const parts = await uploadParts(bucket, begun, upload); // U2
    await bucket.completeUpload(begun, parts, ifAbsent); // U3
    return 'stored';
  } catch (error) {
    // Also after a completion whose answer was lost: then there is nothing left to abort.
    await abortQuietly(bucket, begun);
    if (isKind(error, 'exists')) return 'exists';
    if (isKind(error, 'no_upload')) return 'unclear';
    throw error;
  }
}

async function uploadParts(
  bucket: Bucket,
  begun: { readonly key: string; readonly uploadId: string },
  { bytes, partBytes }: Upload,
): Promise<CompletedPart[]> {
  const count = Math.max(1, Math.ceil(bytes.length / partBytes));
  const parts: CompletedPart[] = [];
  let next = 0;
  let failed = false;
  const work = async () => {
    while (next < count && !failed) {
      const index = next++;
      const part = bytes.subarray(index * partBytes, (index + 1) * partBytes);
      try {
        parts[index] = await bucket.uploadPart(begun, index + 1, part);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  // All of them end before the upload is aborted: a part that comes later would be stored for good.
  const results = await Promise.allSettled(
    Array.from({ length: Math.min(PARALLEL_PARTS, count) }, work),
  );
  for (const result of results) if (result.status === 'rejected') throw result.reason;
  return parts;
}

async function abortQuietly(
  bucket: Bucket,
  begun: { readonly key: string; readonly uploadId: string },
): Promise<void> {
  try {
    await bucket.abortUpload(begun);
  } catch (error) {
    // The failure that led here is the one to tell; what is left is found by its age.
    if (failureOf(error) === null) throw error;
  }
}

/** Aborts uploads under the prefix that were begun long ago. Gives how many. */
export async function abortLeftovers(
  bucket: Bucket,
  isOurs: (key: string) => boolean,
  range: { readonly prefix: string; readonly beforeMs: number },
): Promise<number> {
  let aborted = 0;
  for await (const upload of bucket.openUploads(range.prefix)) {
    if (upload.initiatedMs >= range.beforeMs || !isOurs(upload.key)) continue;
    try {
      await bucket.abortUpload(upload);
      aborted++;
    } catch (error) {
      if (!isKind(error, 'no_upload')) throw error;
    }
  }
  return aborted;
}
