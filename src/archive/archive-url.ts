/** Where an archive is, as somebody types it: `s3://bucket/prefix`, or the path of a folder. */
import { LedgerError } from '../platform/errors.ts';

export type ArchivePlace =
  | { readonly kind: 's3'; readonly bucket: string; readonly prefix: string }
  | { readonly kind: 'folder'; readonly dir: string };

const S3_URL = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/+(.*))?$/;
/** As `archive.s3.prefix`. */
const PREFIX = /^([A-Za-z0-9_=-][A-Za-z0-9._=-]*(\/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*)?$/;

export function parseArchiveUrl(text: string): ArchivePlace {
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(text)?.[1];
  if (scheme === undefined && text.trim() !== '') return { kind: 'folder', dir: text };
  if (scheme !== 's3') throw unknownPlace(text, 'it is neither');
  const [, bucket, rest = ''] = S3_URL.exec(text) ?? [];
  if (bucket === undefined) throw unknownPlace(text, 'a bucket cannot be called so');
  const prefix = rest.replace(/\/+$/, '');
  if (!PREFIX.test(prefix)) throw unknownPlace(text, 'an archive cannot have this prefix');
  return { kind: 's3', bucket, prefix };
}

function unknownPlace(text: string, why: string): LedgerError {
  return new LedgerError('archive_url', `${JSON.stringify(text)}: ${why}`, {
    hint: 'Write s3://bucket/prefix or the path of a folder.',
  });
}
