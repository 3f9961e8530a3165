import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { RebuildMarker } from '../../src/roles/rebuild-marker.ts';
import { tempDir } from '../support/temp-dir.ts';

test('a rebuild that died is still known after a restart, one that ended is not', () => {
  const dir = tempDir('rebuild-marker');
  const path = join(dir.path, 'rebuilding');
  const marker = new RebuildMarker(path);
  expect(marker.untilMs).toBeNull();
  marker.begin(7_200_000);
  expect(new RebuildMarker(path).untilMs).toBe(7_200_000);
  marker.begin(0);
  expect(new RebuildMarker(path).untilMs).toBe(0);
  marker.end();
  expect(marker.untilMs).toBeNull();
  expect(new RebuildMarker(path).untilMs).toBeNull();
  dir.remove();
});
