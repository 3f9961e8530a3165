/** Roles that are started while the servers that they share are away. */
import { afterEach, expect, test } from 'bun:test';
import { type Config, configSchema } from '../../src/config/schema.ts';
import { runApi } from '../../src/roles/api.ts';
import { runReconciler } from '../../src/roles/reconciler.ts';
import { freePorts } from '../support/free-ports.ts';
import { tempDir } from '../support/temp-dir.ts';

const dirs: ReturnType<typeof tempDir>[] = [];
afterEach(() => {
  for (const dir of dirs.splice(0)) dir.remove();
});

/** Nothing listens on port 1. */
async function configOf(port: number): Promise<Config> {
  const dir = tempDir('role-waits');
  dirs.push(dir);
  const host = '127.0.0.1';
  return configSchema.parse({
    dataDir: dir.path,
    logLevel: 'error',
    api: { port, host },
    role: { port, host },
    control: { kind: 'postgres', postgres: { url: 'postgres://u:secret@127.0.0.1:1/db' } },
    log: { kind: 'kafka', kafka: { brokers: '127.0.0.1:1' } },
    archive: { kind: 's3', s3: { bucket: 'clicks', endpoint: 'http://127.0.0.1:1' } },
    warehouse: { kind: 'clickhouse', clickhouse: { url: 'http://127.0.0.1:1' } },
  });
}

for (const [name, run] of [
  ['api', runApi],
  ['reconciler', runReconciler],
] as const) {
  test(`the ${name} says that it lives and what it waits for, and ends at once when it is told to`, async () => {
    const port = freePorts(1)[0]!;
    const stop = new AbortController();
    const running = run(await configOf(port), stop.signal);
    const get = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`);
      return { status: response.status, text: await response.text() };
    };
    let ready = { status: 0, text: 'starting' };
    for (let i = 0; i < 200 && ready.text.includes('starting'); i++) {
      await Bun.sleep(20);
      ready = await get('/readyz').catch(() => ready);
    }
    expect(ready).toMatchObject({ status: 503, text: expect.stringMatching(/^waits: PostgreSQL/) });
    expect((await get('/healthz')).status).toBe(200);
    const metrics = await get('/metrics');
    expect([metrics.status, metrics.text.includes('clickledger_role_ready 0')]).toEqual([
      200,
      true,
    ]);
    if (name === 'api') expect((await get('/v1/ads/metrics')).status).toBe(503);
    const askedMs = performance.now();
    stop.abort();
    await running;
    expect(performance.now() - askedMs).toBeLessThan(2_000);
  });
}
