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
import type { Bucket, Page } from './bucket.ts';

export interface Listed {
  readonly bucket: Pick<Bucket, 'list'>;
  /** What every key of the archive begins with. */
  readonly root: string;
  /** Whether the server lists whole keys in byte order. */
  readonly inByteOrder: boolean;
}

export async function* list(from: Listed, prefix: string): AsyncGenerator<ObjectInfo> {
  let last = '';
  for await (const info of from.inByteOrder ? flat(from, prefix) : byFolder(from, prefix)) {
    // Also a page that is repeated: whoever compares this with a manifest would see what is not so.
    if (info.name <= last) {
      throw new LedgerError(
        'archive_listing',
        `archive: the server listed ${info.name} after ${last}`,
        { hint: 'The server does not list as S3 does. Tell its makers, or use another one.' },
      );
    }
    last = info.name;
    yield info;
  }
}

async function* flat({ bucket, root }: Listed, prefix: string): AsyncGenerator<ObjectInfo> {
  for await (const { objects } of pages(bucket, root + prefix, false)) yield* named(root, objects);
}

async function* byFolder(from: Listed, prefix: string): AsyncGenerator<ObjectInfo> {
  const { bucket, root } = from;
  const objects: ObjectInfo[] = [];
  const folders = new Set<string>();
  for await (const page of pages(bucket, root + prefix, true)) {
    objects.push(...named(root, page.objects));
    for (const folder of page.folders) folders.add(folder.slice(root.length));
  }
  const entries: (ObjectInfo | string)[] = [...objects, ...folders];
  const nameOf = (entry: ObjectInfo | string) => (typeof entry === 'string' ? entry : entry.name);
  entries.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  for (const entry of entries) {
    if (typeof entry !== 'string') yield entry;
    else if (isObjectName(entry.slice(0, -1))) yield* byFolder(from, entry);
  }
}

async function* pages(
  bucket: Listed['bucket'],
  prefix: string,
  atSlash: boolean,
): AsyncGenerator<Page> {
  let after: string | null = null;
  do {
    const page: Page = await bucket.list(prefix, atSlash, after);
    yield page;
    after = page.next;
  } while (after !== null);
}

/** What could not be one of ours is not listed: the probe, folder markers, other people's files. */
function named(root: string, objects: Page['objects']): ObjectInfo[] {
  return objects
    .map(({ key, sizeBytes }) => ({ name: key.slice(root.length), sizeBytes }))
    .filter(({ name }) => isObjectName(name));
}
