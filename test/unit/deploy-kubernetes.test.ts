/**
 * deploy/kubernetes against the product: settings, commands, probes, grace periods and references are
 * real. No cluster has seen these files; kustomize builds them where kubectl is installed.
 */
import { describe, expect, test } from 'bun:test';
import { readdirSync } from 'node:fs';
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

const FOLDER = join(ROOT, 'deploy/kubernetes');
/** Made or applied by hand, each for a reason of its own. */
const NOT_IN_BASE = ['secret.example.yaml', 'shipper-job.yaml'];
const PRE_STOP_SLEEP = /^\d+$/;

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: number };
}
interface Container {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
  readonly restartPolicy?: string;
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly envFrom: readonly {
    readonly configMapRef?: { readonly name: string };
    readonly secretRef?: { readonly name: string };
  }[];
  readonly livenessProbe: Probe;
  readonly readinessProbe?: Probe;
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: string[] } } };
  readonly resources: Readonly<Record<'requests' | 'limits', Readonly<Record<string, string>>>>;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}
interface PodSpec {
  readonly enableServiceLinks: boolean;
  readonly shareProcessNamespace?: boolean;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly initContainers?: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes?: readonly { readonly name: string }[];
}
type Labels = Readonly<Record<string, string>>;
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Environment;
  readonly stringData?: Environment;
  readonly spec: {
    readonly serviceName?: string;
    readonly selector?: Labels & { readonly matchLabels?: Labels };
    readonly template?: { readonly metadata: { readonly labels: Labels }; readonly spec: PodSpec };
    readonly ports?: readonly { readonly port: number; readonly targetPort?: string | number }[];
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
    readonly persistentVolumeClaimRetentionPolicy?: Labels;
  };
}

const files = readdirSync(FOLDER).filter((name) => name.endsWith('.yaml'));
const manifestsIn = (name: string): Manifest[] =>
  [Bun.YAML.parse(readDeploy(`kubernetes/${name}`)) as Manifest | Manifest[]].flat();
const ALL = files.filter((name) => name !== 'kustomization.yaml').flatMap(manifestsIn);
const ofKind = (kind: string): Manifest[] => ALL.filter((each) => each.kind === kind);
const KUSTOMIZATION = manifestsIn('kustomization.yaml')[0] as unknown as {
  readonly resources: readonly string[];
  readonly images: readonly { readonly name: string; readonly newTag: string }[];
};

const WORKLOADS = ALL.flatMap((manifest) => {
  const template = manifest.spec?.template;
  return template === undefined
    ? []
    : [{ manifest, labels: template.metadata.labels, pod: template.spec }];
});
const CONTAINERS = WORKLOADS.flatMap(({ manifest, pod }) =>
  [...(pod.initContainers ?? []), ...pod.containers].map((container) => ({
    manifest,
    pod,
    container,
    role: container.args[0]!,
  })),
);

/** What a container is told, from the objects that it names. */
function environmentOf({ envFrom }: Container): Environment {
  const sources = envFrom.map(({ configMapRef, secretRef }) => {
    const [kind, name] = configMapRef
      ? ['ConfigMap', configMapRef.name]
      : ['Secret', secretRef?.name];
    const found = ofKind(kind!).find(({ metadata }) => metadata.name === name);
    if (found === undefined) throw new Error(`there is no ${kind} ${name}`);
    return found.data ?? found.stringData ?? {};
  });
  return Object.assign({}, ...sources);
}

describe('deploy/kubernetes', () => {
  test('has every role, and every file is in the base or left out on purpose', () => {
    expect(CONTAINERS.map(({ role }) => role).sort()).toEqual([...ROLES].sort());
    const resources = [...KUSTOMIZATION.resources, ...NOT_IN_BASE, 'kustomization.yaml'];
    expect(resources.sort()).toEqual(files.sort());
  });

  test('gives each container a configuration that it would start with', () => {
    for (const { container } of CONTAINERS) {
      const { control, click } = configFrom(environmentOf(container));
      expect([control.kind, click.workers]).toEqual(['postgres', 1]);
    }
  });

  test('keeps secrets out of what is told in the open', () => {
    for (const { data = {} } of ofKind('ConfigMap')) {
      expect(
        Object.keys(data).filter((name) => /PASSWORD|SECRET|ACCESS_KEY|_URL$/.test(name)),
      ).toEqual(['CLICKLEDGER_WAREHOUSE_CLICKHOUSE_URL']);
    }
    for (const { stringData = {} } of ofKind('Secret')) {
      for (const value of Object.values(stringData)) expect(value).toContain('…');
    }
  });

  test('runs commands that there are', () => {
    const problems = CONTAINERS.map(({ container }) => commandProblem(container.args));
    expect(problems.filter((each) => each !== null)).toEqual([]);
  });

  test('probes pages that the role has, on the port that it listens on', async () => {
    for (const { container, role } of CONTAINERS) {
      const port = portOf(role, configFrom(environmentOf(container)));
      expect(container.ports.map(({ containerPort }) => containerPort)).toEqual([port]);
      const probes = [container.livenessProbe, ...[container.readinessProbe ?? []].flat()];
      for (const { httpGet } of probes) {
        expect(httpGet.port).toBe(port);
        expect([role, httpGet.path, await hasPage(role, httpGet.path)]).toEqual([
          role,
          httpGet.path,
          true,
        ]);
      }
      // A role that waits for a server is alive: to restart it would not bring the server back.
      expect(container.livenessProbe.httpGet.path).toBe('/healthz');
      if (role !== 'catalog') expect(container.readinessProbe?.httpGet.path).toBe('/readyz');
    }
  });

  test('takes no click pod out because the database of its ads is away', () => {
    const catalog = CONTAINERS.find(({ role }) => role === 'catalog')!;
    expect(catalog.container.restartPolicy).toBe('Always');
    expect(catalog.container.readinessProbe).toBeUndefined();
    expect(catalog.pod.shareProcessNamespace).toBe(true);
    const folders = (catalog.pod.containers[0]!.volumeMounts ?? []).map(({ name }) => name);
    expect(catalog.container.volumeMounts.map(({ name }) => name)).toEqual(folders);
  });

  test('lets every role finish before it is killed', () => {
    for (const { pod, container, role } of CONTAINERS) {
      const config = configFrom(environmentOf(container));
      const slept = container.lifecycle?.preStop.exec.command.find((word) =>
        PRE_STOP_SLEEP.test(word),
      );
      const leastMs = leastGraceMs(role, config) + Number(slept ?? 0) * 1_000;
      const graceMs = pod.terminationGracePeriodSeconds * 1_000;
      // A side-car is told to stop when the others have ended.
      const worker = role === 'catalog' ? leastGraceMs('click', config) + 10_000 : 0;
      expect([role, graceMs > leastMs + worker]).toEqual([role, true]);
    }
  });

  test('keeps on a disk of its own what must outlive a pod', () => {
    for (const { manifest, pod, container, role } of CONTAINERS) {
      const claims = manifest.spec.volumeClaimTemplates ?? [];
      const volumes = [
        ...claims.map(({ metadata }) => metadata.name),
        ...(pod.volumes ?? []).map((v) => v.name),
      ];
      for (const { name } of container.volumeMounts) expect(volumes).toContain(name);
      const paths = container.volumeMounts.map(({ mountPath }) => mountPath);
      expect(paths).toEqual([environmentOf(container).CLICKLEDGER_DATA_DIR!, '/tmp']);
      const isKept = ['click', 'catalog', 'counter', 'reconciler'].includes(role);
      expect([role, claims.length]).toEqual([role, isKept ? 1 : 0]);
    }
    const click = ofKind('StatefulSet').find(({ metadata }) => metadata.name.endsWith('-click'))!;
    const policy = click.spec.persistentVolumeClaimRetentionPolicy;
    expect(policy).toEqual({ whenDeleted: 'Retain', whenScaled: 'Retain' });
  });

  test('runs without rights, within bounds of memory, and without variables of services', () => {
    for (const { pod, container } of CONTAINERS) {
      expect(pod.enableServiceLinks).toBe(false);
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
      expect(container.securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      expect(Object.keys(container.resources.requests).sort()).toEqual(['cpu', 'memory']);
      // A limit of the processor would keep a member of a group from its heartbeats.
      expect(Object.keys(container.resources.limits)).toEqual(['memory']);
      expect(KUSTOMIZATION.images.map(({ name }) => name)).toContain(container.image);
    }
  });

  test('selects pods that there are, with budgets for all that stay', () => {
    const covers = (selector: Labels): boolean =>
      WORKLOADS.some(({ labels }) =>
        Object.entries(selector).every(([name, value]) => labels[name] === value),
      );
    const selectors = [...ofKind('Service'), ...ofKind('PodDisruptionBudget')].map(
      ({ spec }) => spec.selector?.matchLabels ?? (spec.selector as Labels),
    );
    for (const selector of selectors)
      expect([selector, covers(selector)]).toEqual([selector, true]);
    const lasting = WORKLOADS.filter(({ manifest }) => manifest.kind !== 'Job');
    expect(
      ofKind('PodDisruptionBudget')
        .map(({ metadata }) => metadata.name)
        .sort(),
    ).toEqual(lasting.map(({ manifest }) => manifest.metadata.name).sort());
    const services = ofKind('Service').map(({ metadata }) => metadata.name);
    for (const { spec } of ofKind('StatefulSet')) expect(services).toContain(spec.serviceName!);
  });

  const KUBECTL = Bun.which('kubectl');
  test.skipIf(KUBECTL === null)('kustomize builds it, as many objects as the files have', () => {
    const { exitCode, stdout, stderr } = Bun.spawnSync([KUBECTL!, 'kustomize', FOLDER]);
    expect({ exitCode, stderr: stderr.toString() }).toEqual({ exitCode: 0, stderr: '' });
    const built = Bun.YAML.parse(stdout.toString()) as Manifest[];
    expect(built.length).toBe(KUSTOMIZATION.resources.flatMap(manifestsIn).length);
    expect(stdout.toString()).not.toMatch(/image: clickledger$/m);
  });
});
