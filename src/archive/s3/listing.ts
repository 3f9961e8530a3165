/**
 * Names below a prefix in byte order, a page at a time.
 *
 * AWS lists keys in byte order of the whole key. Servers that keep folders list the content of `b/`
 * where `b` belongs, before `b-c`. For these each folder is listed by itself and sorted as its name
 * with the slash: more requests, and one folder's names in memory.
 */
import { LedgerError } from '../../platform/errors.ts';
import { isObjectName } from '../object-name.ts';
import type { ObjectInfo } from '../port.ts';
import type { Bucket, ListFrom, Page } from './bucket.ts';

export interface Listed {
  readonly bucket: Pick<Bucket, 'list'>;
  /** What every key of the archive begins with. */
  readonly root: string;
  /** Whether the server lists whole keys in byte order. */
  readonly inByteOrder: boolean;
}

export async function* list(from: Listed, prefix: string, after = ''): AsyncGenerator<ObjectInfo> {
  const names = from.inByteOrder ? flat(from, prefix, after) : byFolder(from, prefix, after);
  let last = '';
  for await (const info of names) {
    // Also a page that is repeated: whoever compares this with a manifest would see what is not so.
    if (info.name <= last) {
      throw new LedgerError(
        'archive_listing',
        `archive: the server listed ${info.name} after ${last}`,
        { hint: 'The server does not list as S3 does. Tell its makers, or use another one.' },
      );
    }
    last = info.name;
    // Also from a server that does not know where to start.
    if (info.name > after) yield info;
  }
}

async function* flat(
  { bucket, root }: Listed,
  prefix: string,
  after: string,
): AsyncGenerator<ObjectInfo> {
  const startKey = after === '' ? '' : root + after;
  for await (const { objects } of pages(bucket, root + prefix, { atSlash: false, startKey })) {
    yield* named(root, objects);
  }
}

async function* byFolder(from: Listed, prefix: string, after: string): AsyncGenerator<ObjectInfo> {
  const { bucket, root } = from;
  const objects: ObjectInfo[] = [];
  const folders = new Set<string>();
  const start = startIn(prefix, after);
  const startKey = start === '' ? '' : root + start;
  for await (const page of pages(bucket, root + prefix, { atSlash: true, startKey })) {
    objects.push(...named(root, page.objects));
    for (const folder of page.folders) folders.add(folder.slice(root.length));
  }
  const entries: (ObjectInfo | string)[] = [...objects, ...folders];
  const nameOf = (entry: ObjectInfo | string) => (typeof entry === 'string' ? entry : entry.name);
  entries.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  for (const entry of entries) {
    if (typeof entry !== 'string') yield entry;
    else if (isObjectName(entry.slice(0, -1)) && (entry > after || after.startsWith(entry))) {
      yield* byFolder(from, entry, after);
    }
  }
}

/**
 * Where the listing of one folder may start when only names after `after` are wanted; empty: at its
 * beginning. Servers that keep folders compare the names of folders without the slash: what is skipped
 * must come before `after` with the slash too. A name that is shorter than `after`, up to the first
 * character that sorts before a slash, does.
 */
function startIn(prefix: string, after: string): string {
  const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  if (!after.startsWith(prefix)) return '';
  const name = after.slice(folder.length);
  if (name.includes('/')) return '';
  const end = name.search(/[-.]/);
  const start = name.slice(0, (end < 0 ? name.length : end) - 1);
  return start === '' || end === 0 ? '' : folder + start;
}

async function* pages(
  bucket: Listed['bucket'],
  prefix: string,
  { atSlash, startKey }: { readonly atSlash: boolean; readonly startKey: string },
): AsyncGenerator<Page> {
  let from: ListFrom | null = { key: startKey };
  do {
    const page: Page = await bucket.list(prefix, atSlash, from);
    yield page;
    from = page.next === null ? null : { page: page.next };
  } while (from !== null);
}

/** What could not be one of ours is not listed: the probe, folder markers, other people's files. */
function named(root: string, objects: Page['objects']): ObjectInfo[] {
  return objects
    .map(({ key, sizeBytes }) => ({ name: key.slice(root.length), sizeBytes }))
    .filter(({ name }) => isObjectName(name));
}
