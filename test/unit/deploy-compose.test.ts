/**
 * deploy/compose.yaml against the product: no setting, command, page or volume in it is made up. That
 * the whole of it comes up is not shown here: it takes a Docker to do that.
 */
import { describe, expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  commandProblem,
  configFrom,
  type Environment,
  hasPage,
  leastGraceMs,
  portOf,
  ROLES,
  readDeploy,
} from '../support/deploy-files.ts';
import { ROOT } from '../support/source-tree.ts';

interface Service {
  readonly image: string;
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly hostname?: string;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly configs?: readonly { readonly source: string }[];
  readonly tmpfs?: readonly string[];
  readonly pid?: string;
  readonly restart: string;
  readonly read_only?: boolean;
  readonly stop_grace_period?: string;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
}
interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly configs: Readonly<Record<string, { readonly content: string }>>;
}

const TEXT = readDeploy('compose.yaml');
const { services, volumes, configs } = Bun.YAML.parse(TEXT) as Compose;
const ENV_FILE = new Map(
  [...readDeploy('.env.example').matchAll(/^(\w+)=(.*)$/gm)].map((m) => [m[1]!, m[2]!]),
);
/** `${NAME}` and `${NAME:?why}`, as Compose fills them in. */
const VARIABLE = /\$\{(\w+)(?::\?[^}]*)?\}/g;

const filledIn = (text: string): string =>
  text.replaceAll(VARIABLE, (_, name: string) => ENV_FILE.get(name) ?? '');

function environmentOf(service: Service): Environment {
  const entries = Object.entries(service.environment ?? {});
  return Object.fromEntries(entries.map(([name, value]) => [name, filledIn(String(value))]));
}

/** Ours run the image that is built here, with our program as entry point or by a shell. */
const OURS = Object.entries(services).filter(([, { build }]) => build !== undefined);
const roleOf = ({ command, entrypoint }: Service): string | null =>
  entrypoint === undefined && ROLES.includes(command?.[0] ?? '') ? command![0]! : null;
const LASTING = OURS.flatMap(([name, service]) => {
  const role = roleOf(service);
  return role === null ? [] : [{ name, service, role }];
});

describe('deploy/compose.yaml', () => {
  test('has every role, and the ones that share work more than once', () => {
    const count = (role: string): number => LASTING.filter((each) => each.role === role).length;
    for (const role of ['click', 'catalog', 'counter', 'archiver', 'reconciler']) {
      expect({ role, count: count(role) }).toEqual({ role, count: 2 });
    }
    expect(count('api')).toBe(1);
  });

  test('gives each of ours a configuration that it would start with', () => {
    for (const [, service] of OURS) {
      const { control, catalog } = configFrom(environmentOf(service));
      expect([control.kind, catalog.kind]).toEqual(['postgres', 'postgres']);
    }
  });

  test('runs commands that there are', () => {
    const lines = OURS.flatMap(([, { command = [], entrypoint }]) =>
      entrypoint === undefined
        ? [command]
        : // A shell's line: each part of it that begins with our name.
          command.flatMap((line) =>
            line.split(/\|\|?/).flatMap((part) => {
              const [program, ...args] = part.trim().split(/\s+/);
              return program === 'clickledger' ? [args.filter((arg) => arg !== 'development')] : [];
            }),
          ),
    );
    const different = new Map(lines.map((line) => [line.join(' '), line]));
    expect(different.size).toBeGreaterThan(7);
    const problems = [...different.values()].map(commandProblem).filter((each) => each !== null);
    expect(problems).toEqual([]);
  });

  test('asks every role whether it is ready, on a page and port that it has', async () => {
    for (const { name, service, role } of LASTING) {
      const [kind, program, address] = service.healthcheck?.test ?? [];
      expect([name, kind, program]).toEqual([name, 'CMD', 'clickledger-ready']);
      const url = new URL(address!);
      const port = portOf(role, configFrom(environmentOf(service)));
      expect([name, url.pathname, Number(url.port)]).toEqual([name, '/readyz', port]);
      expect(await hasPage(role, url.pathname)).toBe(true);
    }
    expect(await hasPage('counter', '/nothing')).toBe(false);
  });

  test('gives every role time to end, a name that stays, and no disk but its volume', () => {
    for (const { name, service, role } of LASTING) {
      const graceMs = Number(/^(\d+)s$/.exec(service.stop_grace_period ?? '')?.[1]) * 1_000;
      expect(graceMs).toBeGreaterThan(leastGraceMs(role, configFrom(environmentOf(service))));
      expect([name, service.read_only, service.restart]).toEqual([name, true, 'unless-stopped']);
      // In another's process namespace it has that one's host name.
      if (service.pid === undefined) expect(service.hostname).toBe(name);
      const mounts = [...(service.volumes ?? []), ...(service.tmpfs ?? [])];
      expect(mounts.some((each) => /(^|:)\/data(:|$)/.test(each))).toBe(true);
      if (role === 'click') expect(service.volumes).toEqual([`${name}:/data`]);
    }
  });

  test('lets a catalog role share folder and process numbers with its click worker', () => {
    for (const { service } of LASTING.filter(({ role }) => role === 'catalog')) {
      const worker = services[/^service:(.+)$/.exec(service.pid ?? '')?.[1] ?? ''];
      expect(worker?.command?.[0]).toBe('click');
      expect(worker?.volumes).toEqual(service.volumes);
    }
  });

  test('names only services, volumes, configs and variables that it has', () => {
    for (const [name, service] of Object.entries(services)) {
      for (const [other, { condition }] of Object.entries(service.depends_on ?? {})) {
        const target = services[other];
        expect([name, other, target !== undefined]).toEqual([name, other, true]);
        if (condition === 'service_healthy') expect(target!.healthcheck).toBeDefined();
        // A service that starts again never completes.
        if (condition === 'service_completed_successfully') expect(target!.restart).toBe('no');
      }
      for (const volume of service.volumes ?? []) {
        const source = volume.split(':')[0]!;
        if (source.startsWith('./')) expect(existsSync(join(ROOT, 'deploy', source))).toBe(true);
        else expect(Object.keys(volumes)).toContain(source);
      }
      for (const { source } of service.configs ?? []) {
        expect(() => JSON.parse(filledIn(configs[source]!.content))).not.toThrow();
      }
    }
    const used = new Set([...TEXT.matchAll(VARIABLE)].map((match) => match[1]!));
    expect([...used].sort()).toEqual([...ENV_FILE.keys()].sort());
    const mounted = new Set(Object.values(services).flatMap(({ volumes: own = [] }) => own));
    const sources = [...mounted].map((each) => each.split(':')[0]!);
    for (const volume of Object.keys(volumes)) expect(sources).toContain(volume);
  });

  test('keeps secrets out of the file, ports on this machine, and images at a version', () => {
    for (const service of Object.values(services)) {
      for (const [name, value] of Object.entries(service.environment ?? {})) {
        if (/PASSWORD|SECRET|ACCESS_KEY/.test(name))
          expect(String(value)).toMatch(/^\$\{\w+:\?.*\}$/);
      }
      for (const port of service.ports ?? []) expect(port).toStartWith('127.0.0.1:');
      if (service.build === undefined) expect(service.image).toMatch(/:\d[\w.]*$/);
    }
  });
});

describe('deploy/Dockerfile', () => {
  const dockerfile = readDeploy('Dockerfile');
  const ignore = readDeploy('Dockerfile.dockerignore');

  test('copies what there is, and what it may copy', () => {
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap((match) =>
      match[1]!.split(' '),
    );
    expect(copied.length).toBeGreaterThan(5);
    for (const path of copied) {
      expect([path, existsSync(join(ROOT, path))]).toEqual([path, true]);
      expect(ignore.split('\n')).toContain(`!${path}`);
    }
  });

  test('runs as somebody, and starts the program that the packages bring', () => {
    expect(dockerfile).toMatch(/^USER 1000:1000$/m);
    for (const name of ['clickledger.sh', 'clickledger-ready.sh']) {
      const program = /^exec \/app\/(\S+)/m.exec(readDeploy(name))?.[1];
      expect(existsSync(join(ROOT, program!))).toBe(true);
      expect(dockerfile).toContain(
        `/app/deploy/${name} /usr/local/bin/${name.replace('.sh', '')} `,
      );
    }
  });
});
