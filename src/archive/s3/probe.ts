/**
 * What the server can do, found out when the store is opened: who may overwrite an invoice's evidence
 * must be known before the first object, not after the first accident.
 *
 * Two small objects stay in the bucket, below `.clickledger/`, where no object of the archive can
 * be. Writing each of them again must be refused, one put at once and one in parts; and the order in which they
 * are listed shows how the server sorts.
 */
import { LedgerError } from '../../platform/errors.ts';
import type { Bucket } from './bucket.ts';
import { failureOf, isKind, told, unavailable } from './failures.ts';
import { type UploadOutcome, uploadInParts } from './upload.ts';

const FOLDER = '.clickledger/probe/';
/** In byte order: `-` is before `/`. */
const IN_PARTS = `${FOLDER}b-c`;
const AT_ONCE = `${FOLDER}b/1`;
const CONTENT = Buffer.from(
  'Shows whether the server keeps objects that exist. Leave it here: docs/operating/archive-on-s3.md\n',
);

export interface Abilities {
  readonly inByteOrder: boolean;
}

export interface Probe {
  readonly bucket: Bucket;
  readonly root: string;
  readonly conditionalPut: boolean;
}

/** Throws LedgerError `archive_refused` when the bucket cannot hold an archive. */
export async function probe(probed: Probe): Promise<Abilities> {
  const { bucket } = probed;
  try {
    const before = await listed(probed);
    for (const [name, put] of probed.conditionalPut ? [] : weakPuts(probed)) {
      if (!before.includes(name)) await put();
    }
    for (const [request, put] of probed.conditionalPut ? conditionalPuts(probed) : []) {
      await requireKept(bucket, request, put);
    }
    const after = before.length === 2 ? before : await listed(probed);
    if (after.length !== 2) throw refused(bucket, 'does not list what was just written', LIST_HINT);
    return { inByteOrder: after[0] === IN_PARTS };
  } catch (error) {
    throw asRefusal(bucket, error);
  }
}

/** The same without a write: a server that was never tried out is listed folder by folder. */
export async function look(place: Pick<Probe, 'bucket' | 'root'>): Promise<Abilities> {
  try {
    const [first, second] = await listed(place);
    return { inByteOrder: first === IN_PARTS && second === AT_ONCE };
  } catch (error) {
    throw asRefusal(place.bucket, error);
  }
}

async function listed({ bucket, root }: Pick<Probe, 'bucket' | 'root'>): Promise<string[]> {
  const { objects } = await bucket.list(root + FOLDER, false, { key: '' });
  const names = objects.map(({ key }) => key.slice(root.length));
  return names.filter((name) => name === IN_PARTS || name === AT_ONCE);
}

function weakPuts({ bucket, root }: Probe): [string, () => Promise<void>][] {
  const put = (name: string) => () => bucket.put(root + name, CONTENT, false);
  return [IN_PARTS, AT_ONCE].map((name) => [name, put(name)]);
}

function conditionalPuts({ bucket, root }: Probe): [string, () => Promise<UploadOutcome>][] {
  const upload = { key: root + IN_PARTS, bytes: CONTENT, partBytes: CONTENT.length };
  return [
    ['PutObject', () => putAtOnce(bucket, root + AT_ONCE)],
    ['CompleteMultipartUpload', () => uploadInParts(bucket, { ...upload, ifAbsent: true })],
  ];
}

async function putAtOnce(bucket: Bucket, key: string): Promise<UploadOutcome> {
  try {
    await bucket.put(key, CONTENT, true);
    return 'stored';
  } catch (error) {
    if (isKind(error, 'exists')) return 'exists';
    throw error;
  }
}

/** The first put may store the object; the one after it must find that it exists. */
async function requireKept(
  bucket: Bucket,
  request: string,
  put: () => Promise<UploadOutcome>,
): Promise<void> {
  try {
    for (let attempt = 0; attempt < 2; attempt++) if ((await put()) !== 'stored') return;
  } catch (error) {
    if (!isKind(error, 'unsupported')) throw error;
  }
  const what = `overwrites objects that exist: it does not honour If-None-Match on ${request}`;
  throw refused(bucket, what, CONDITION_HINT);
}

const LIST_HINT =
  'The archive needs a server whose listings show every finished write, as those of S3 do.';
const CONDITION_HINT =
  'Use a server that does, or set archive.s3.conditional_put = false, which is weaker: see docs/operating/archive-on-s3.md.';

function refused(bucket: Bucket, what: string, hint: string, cause?: unknown): LedgerError {
  const message = `archive: bucket ${bucket.name}: the server ${what}`;
  return new LedgerError('archive_refused', message, { hint, cause });
}

/** At the start somebody is looking: what does not pass by itself is told at once, and nothing runs. */
function asRefusal(bucket: Bucket, error: unknown): unknown {
  const failure = failureOf(error);
  if (failure === null) return error;
  const { code, status, kind } = failure;
  if (kind === 'passing') return unavailable(`bucket ${bucket.name}`, failure, error);
  const what = `refused: ${told(failure)}`;
  if (code === 'NoSuchBucket' || (status === 404 && kind !== 'no_upload')) {
    const hint = 'Make the bucket, or correct archive.s3.bucket, region or endpoint.';
    return refused(bucket, `does not have it: ${told(failure)}`, hint, error);
  }
  if (code === 'CredentialsProviderError') {
    const hint =
      'Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or run with a role.';
    return refused(bucket, 'was not asked: no credentials were found', hint, error);
  }
  if (status === 401 || status === 403) {
    const hint =
      'Check credentials and policy: docs/operating/archive-on-s3.md lists what must be allowed.';
    return refused(bucket, what, hint, error);
  }
  const hint = 'Check archive.s3.region (or AWS_REGION), endpoint and force_path_style.';
  return refused(bucket, what, hint, error);
}
