// Proves INV-8 of SPEC.md.
import { expect, test } from 'bun:test';
import { type ReadWarehouse, wholeWarehouse } from '../../src/roles/whole-warehouse.ts';

const QUERY = {} as Parameters<ReadWarehouse['metrics']>[0];

/** A warehouse that has no rows for as long as it is being built again. */
function setUp() {
  const rebuilt = { isRebuilding: false, rebuilds: 0 };
  let during = (): void => {};
  const page = async () => {
    during();
    return { rows: [], next: undefined };
  };
  const none = async () => [];
  const raw: ReadWarehouse = {
    metrics: page,
    top: async () => ({ rows: [], total: 0 }),
    hours: none,
    restatements: none,
    drift: none,
  };
  const begin = (): void => {
    rebuilt.isRebuilding = true;
    rebuilt.rebuilds++;
  };
  const end = (): void => {
    rebuilt.isRebuilding = false;
  };
  const read = async (happens: () => void = () => {}): Promise<string> => {
    during = happens;
    try {
      await wholeWarehouse(raw, rebuilt).metrics(QUERY, 0);
      return 'rows';
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  return { begin, end, read };
}

test('a read is refused while the warehouse is built again, and answered after it', async () => {
  const { begin, end, read } = setUp();
  expect(await read()).toBe('rows');
  begin();
  expect(await read()).toBe('rebuilding');
  end();
  expect(await read()).toBe('rows');
});

test('a read that a rebuild begins under, or goes by under, is no answer', async () => {
  const { begin, end, read } = setUp();
  expect(await read(begin)).toBe('rebuilding');
  end();
  const goesBy = (): void => {
    begin();
    end();
  };
  expect(await read(goesBy)).toBe('rebuilding');
  expect(await read()).toBe('rows');
});
