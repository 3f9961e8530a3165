/** What files below `deploy/` say about our processes, compared with the product itself. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { CORE_OPERATIONS } from '../../src/api/core-operations.ts';
import { createOpsFetch } from '../../src/click/ops.ts';
import { loadConfig } from '../../src/config/load.ts';
import { type Config, configSchema } from '../../src/config/schema.ts';
import { ENV_ALIASES, ENV_PREFIX } from '../../src/config/settings.ts';
import { serveRole } from '../../src/roles/role-server.ts';
import { ROOT } from './source-tree.ts';

export type Environment = Readonly<Record<string, string>>;

/** Roles that run until they are told to stop; all other commands end by themselves. */
export const ROLES = ['click', 'catalog', 'counter', 'archiver', 'reconciler', 'api', 'shipper'];
/** Variables of libraries: the credentials of the bucket. */
const OTHERS = /^AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|REGION)$/;

export const readDeploy = (path: string): string =>
  readFileSync(join(ROOT, 'deploy', path), 'utf8');

/** The configuration that a process would start with; throws with everything that is wrong with it. */
export function configFrom(env: Environment): Config {
  const foreign = Object.keys(env).filter(
    (name) => !(name.startsWith(ENV_PREFIX) || name in ENV_ALIASES || OTHERS.test(name)),
  );
  if (foreign.length > 0) throw new Error(`nobody reads ${foreign.join(', ')}`);
  return loadConfig({ env, defaultFile: join(ROOT, 'there-is-no-such-file.toml') });
}

/** What is wrong with a command line, by asking the program itself. */
export function commandProblem(args: readonly string[]): string | null {
  const end = args.findIndex((arg) => arg.startsWith('-'));
  const words = end < 0 ? args : args.slice(0, end);
  const main = join(ROOT, 'src', 'main.ts');
  const { stdout, stderr, exitCode } = Bun.spawnSync([process.execPath, main, ...words, '--help']);
  if (exitCode !== 0) return `the program does not start: ${stderr.toString().slice(0, 500)}`;
  const help = stdout.toString();
  if (!help.startsWith(`Usage: clickledger ${words.join(' ')} `)) {
    return `there is no command ${words.join(' ')}`;
  }
  const unknown = args.filter((arg) => arg.startsWith('--') && !help.includes(`${arg} `));
  return unknown.length === 0 ? null : `${words.join(' ')} has no option ${unknown.join(', ')}`;
}

export function portOf(role: string, config: Config): number {
  if (role === 'click') return config.click.port;
  return role === 'api' ? config.api.port : config.role.port;
}

/** Whether the role has this page, whatever the page says. */
export async function hasPage(role: string, path: string): Promise<boolean> {
  if (role === 'click') {
    const ads = { activeKeys: () => [] };
    const fetchOps = createOpsFetch({ ads, log: { healthy: true }, metricsText: () => '' });
    return (await fetchOps(new Request(`http://t.example${path}`), path)) !== null;
  }
  if (role === 'api') {
    return CORE_OPERATIONS.some((each) => each.method === 'GET' && each.path === path);
  }
  const { role: config } = configSchema.parse({ role: { port: 0, host: '127.0.0.1' } });
  const server = serveRole({ config, registry: new Registry(), waitsFor: () => null });
  const { status } = await fetch(`http://127.0.0.1:${server.port}${path}`);
  await server.close();
  return status !== 404;
}

/**
 * The least time between SIGTERM and SIGKILL: a role finishes for its grace, and may take as long
 * again to close; a click worker first ends its connections, then the clicks that it has taken.
 */
export function leastGraceMs(role: string, config: Config): number {
  return 2 * (role === 'click' ? config.click.drainMs : config.role.drainMs);
}
