/**
 * The log's file calls with faults at chosen moments. What a log must survive, and why:
 *
 * F1 A write fails once (EIO), with none, some or all of its bytes on disk. The kernel may drop the
 *    pages and report it once, so trying again proves nothing: the records must fail, none may be
 *    acknowledged, and what reached the disk must never be read as if it had been.
 * F2 The disk is full for a while: writes and new files fail. Clicks must be refused at once (their
 *    caller answers 503), and taken again without anybody's help when there is space.
 * F3 Preparing space fails, while frames still fit or not: it is only a speed-up.
 * F4 Cutting a file or syncing a folder fails: the disk that failed a write may fail everything.
 * F5 A write takes very long and ends after others began: a device that times out answers late, and
 *    must not harm files that were made meanwhile.
 *
 * Not here: bytes that were confirmed and are gone or changed later. Those tests edit the files.
 */
import { type FileDone, type LogFiles, nodeFiles } from '../../src/log/disk/files.ts';

export type WriteKind = 'frame' | 'zeros';

const failure = (code: string): Error => Object.assign(new Error(`${code}: injected`), { code });

export class FaultyFiles implements LogFiles {
  /** F2. */
  full = false;
  /** F1, F3: how many bytes the next write of the kind brings to disk before it fails. */
  readonly failNext: { frame?: number | 'all'; zeros?: number } = {};
  /** F4. */
  failTruncates = false;
  failDirectorySyncs = false;
  /** F5: writes of these kinds wait for `release`. */
  readonly hold = new Set<WriteKind>();
  readonly writes = { frame: 0, zeros: 0 };
  readonly #held: (() => void)[] = [];

  get heldWrites(): number {
    return this.#held.length;
  }

  /** Lets every held write go on. */
  release(): void {
    this.hold.clear();
    for (const goOn of this.#held.splice(0)) goOn();
  }

  createForSyncWrites(path: string): number {
    if (this.full) throw failure('ENOSPC');
    return nodeFiles.createForSyncWrites(path);
  }

  write(fd: number, bytes: Buffer, length: number, position: number, done: FileDone): void {
    const kind: WriteKind = bytes.readUInt32LE(0) === 0 ? 'zeros' : 'frame';
    this.writes[kind]++;
    const goOn = (): void => this.#write(kind, { fd, bytes, length, position }, done);
    if (this.hold.has(kind)) this.#held.push(goOn);
    else goOn();
  }

  #write(
    kind: WriteKind,
    what: { fd: number; bytes: Buffer; length: number; position: number },
    done: FileDone,
  ): void {
    const { fd, bytes, length, position } = what;
    if (this.full) {
      setImmediate(done, failure('ENOSPC'));
      return;
    }
    const reach = this.failNext[kind];
    if (reach === undefined) {
      nodeFiles.write(fd, bytes, length, position, done);
      return;
    }
    delete this.failNext[kind];
    const some = reach === 'all' ? length : Math.min(length, reach);
    nodeFiles.write(fd, bytes, some, position, () => done(failure('EIO')));
  }

  truncateOpen(fd: number, sizeBytes: number): void {
    if (this.failTruncates) throw failure('EIO');
    nodeFiles.truncateOpen(fd, sizeBytes);
  }

  truncate(path: string, sizeBytes: number): void {
    if (this.failTruncates) throw failure('EIO');
    nodeFiles.truncate(path, sizeBytes);
  }

  close(fd: number): void {
    nodeFiles.close(fd);
  }

  syncDirectory(path: string): void {
    if (this.failDirectorySyncs) throw failure('EIO');
    nodeFiles.syncDirectory(path);
  }
}
