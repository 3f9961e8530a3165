/** The S3 store against a real S3 server: what every store must do, in both ways of putting. */
import { afterAll, beforeAll } from 'bun:test';
import { objectStoreSuite } from '../conformance/object-store-suite.ts';
import { S3World } from '../support/s3-world.ts';

let world: S3World | undefined;
beforeAll(async () => {
  world = await S3World.start();
});
afterAll(() => world?.stop());

for (const conditionalPut of [true, false]) {
  for (const [size, atOnceBytes] of [
    ['at once', undefined],
    ['in parts', 0],
  ] as const) {
    const how = conditionalPut ? 'conditional' : 'looked up first';
    objectStoreSuite(`s3, ${how}, ${size}`, async () => {
      const prefix = world!.freshPrefix();
      const open = () =>
        world!.open({ prefix, conditionalPut, ...(atOnceBytes === 0 && { atOnceBytes }) });
      return { store: await open(), reopen: open, remove: async () => {} };
    });
  }
}
