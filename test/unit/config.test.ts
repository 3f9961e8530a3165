import { afterAll, describe, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { configurationPage, describeConfig } from '../../src/config/describe.ts';
import { type ConfigSources, loadConfig } from '../../src/config/load.ts';
import { RELATIONS } from '../../src/config/relations.ts';
import { configSchema } from '../../src/config/schema.ts';
import { SETTINGS, settingByKey } from '../../src/config/settings.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { tempDir } from '../support/temp-dir.ts';

const dir = tempDir('config');
afterAll(() => dir.remove());

const NO_FILE = join(dir.path, 'none.toml');
let files = 0;
function tomlFile(text: string): string {
  const path = join(dir.path, `${files++}.toml`);
  writeFileSync(path, text);
  return path;
}

const load = (sources: Partial<ConfigSources>) =>
  loadConfig({ env: {}, defaultFile: NO_FILE, ...sources });

/** The problem lines of a configuration that must be refused. */
function problems(sources: Partial<ConfigSources>): string[] {
  try {
    load(sources);
  } catch (error) {
    expect(error).toBeInstanceOf(LedgerError);
    expect((error as LedgerError).code).toBe('config_invalid');
    const [first, ...lines] = (error as LedgerError).message.split('\n');
    expect(first).toContain(lines.length === 1 ? 'one problem' : `${lines.length} problems`);
    return lines.map((line) => line.trim());
  }
  throw new Error('the configuration was accepted');
}

describe('where values come from', () => {
  test('without any source every setting has its default', () => {
    expect(load({})).toEqual(configSchema.parse({}));
  });

  test('the environment is stronger than the file, and flags are stronger than both', () => {
    const file = tomlFile('[click]\nport = 1\nworkers = 2\nmax_pending = 3\n');
    const env = { CLICKLEDGER_CLICK_WORKERS: '4', CLICKLEDGER_CLICK_MAX_PENDING: '5' };
    const { click } = load({ file, env, flags: { click: { maxPending: 6 } } });
    expect([click.port, click.workers, click.maxPending]).toEqual([1, 4, 6]);
  });

  test('a flag that is undefined leaves what the weaker sources said', () => {
    const env = { CLICKLEDGER_CLICK_PORT: '81' };
    expect(load({ env, flags: { dataDir: undefined, click: { port: undefined } } })).toEqual(
      configSchema.parse({ click: { port: 81 } }),
    );
  });

  test('the default file is read when it exists', () => {
    const defaultFile = tomlFile('data_dir = "/elsewhere"');
    expect(load({ defaultFile }).dataDir).toBe('/elsewhere');
  });

  test('every setting can be given by its environment variable', () => {
    for (const setting of SETTINGS) {
      const env = { [setting.envName]: String(setting.defaultValue) };
      expect(load({ env })).toEqual(configSchema.parse({}));
    }
  });

  test('CLICKLEDGER_DATA is short for CLICKLEDGER_DATA_DIR, and the two must not disagree', () => {
    expect(load({ env: { CLICKLEDGER_DATA: '/d' } }).dataDir).toBe('/d');
    const both = { CLICKLEDGER_DATA: '/d', CLICKLEDGER_DATA_DIR: '/e' };
    expect(problems({ env: both })).toEqual([
      'CLICKLEDGER_DATA: says otherwise than CLICKLEDGER_DATA_DIR; set one of the two',
    ]);
  });

  test('variables of other programs are not looked at', () => {
    expect(load({ env: { PATH: '/bin', CLICKHOUSE_PORT: 'x', HOME: undefined } })).toBeDefined();
  });

  test('settings of a table within a table come from file, environment and flags alike', () => {
    const bucket = { kind: 's3', s3: { bucket: 'clicks', forcePathStyle: true } } as const;
    const file = tomlFile(
      '[archive]\nkind = "s3"\n[archive.s3]\nbucket = "clicks"\nforce_path_style = true\n',
    );
    const env = {
      CLICKLEDGER_ARCHIVE_KIND: 's3',
      CLICKLEDGER_ARCHIVE_S3_BUCKET: 'clicks',
      CLICKLEDGER_ARCHIVE_S3_FORCE_PATH_STYLE: 'true',
    };
    const expected = configSchema.parse({ archive: bucket });
    expect([load({ file }), load({ env }), load({ flags: { archive: bucket } })]).toEqual([
      expected,
      expected,
      expected,
    ]);
    const misspelt = tomlFile('[archive.s3]\nbuckett = "clicks"\n');
    expect(problems({ file: misspelt })).toEqual([
      `${misspelt}:2: archive.s3.buckett: no such setting; did you mean archive.s3.bucket?`,
    ]);
  });

  test('a password comes from CLICKHOUSE_PASSWORD or the file, and is never printed', () => {
    const password = 'hunter2';
    const file = tomlFile('[warehouse.clickhouse]\npassword = "hunter2"\n');
    for (const sources of [{ file }, { env: { CLICKHOUSE_PASSWORD: password } }]) {
      const config = load(sources);
      expect(config.warehouse.clickhouse.password).toBe(password);
      const text = describeConfig(config);
      expect(text).not.toContain(password);
      expect(text).toContain('# password = (set, and not shown)\n');
      // What is printed is still a file.
      expect(load({ file: tomlFile(text) }).warehouse.clickhouse.password).toBe('');
    }
    const wrong = tomlFile('[warehouse.clickhouse]\npassword = 12345\n');
    expect(problems({ file: wrong })).toEqual([
      `${wrong}:2: warehouse.clickhouse.password: given …, expected text`,
    ]);
  });

  test('dotted keys and inline tables name the same settings as a section does', () => {
    const dotted = load({ file: tomlFile('click.port = 81\napi = { port = 82 }\n') });
    expect([dotted.click.port, dotted.api.port]).toEqual([81, 82]);
  });
});

describe('what is refused', () => {
  test('all problems of all sources are reported at once, an overridden value included', () => {
    const file = tomlFile('data_dir = ""\n[click]\nport = "x"\non_log_failure = "ignore"\n');
    const env = { CLICKLEDGER_API_PORT: '8081x', CLICKLEDGER_CLICK_PORT: '80' };
    expect(problems({ file, env, flags: { reconcile: { driftAlert: 2 } } })).toEqual([
      `${file}:1: data_dir: given "", expected text that is not empty`,
      `${file}:3: click.port: given "x", expected a whole number from 0 to 65535`,
      `${file}:4: click.on_log_failure: given "ignore", expected one of "refuse", "redirect"`,
      'CLICKLEDGER_API_PORT: given "8081x", expected a whole number from 0 to 65535',
      'command line: reconcile.drift_alert: given 2, expected a number from 0 to 1',
    ]);
  });

  test('an unknown key is refused with the key that was probably meant', () => {
    const file = tomlFile(
      'latness_ms = 1\nport = 2\n[click]\nmax_pendng = 3\ncountryHeader = "x"\n[clik]\nport = 4\n[click.extra]\na = 5\n',
    );
    expect(problems({ file })).toEqual([
      `${file}:1: latness_ms: no such setting`,
      `${file}:2: port: no such setting; did you mean click.port or api.port or role.port?`,
      `${file}:4: click.max_pendng: no such setting; did you mean click.max_pending?`,
      `${file}:5: click.countryHeader: no such setting; did you mean click.country_header?`,
      `${file}:8: [click.extra]: no such section`,
      `${file}:6: [clik]: no such section; did you mean click?`,
    ]);
  });

  test('an unknown CLICKLEDGER_ variable is refused with the one that was probably meant', () => {
    expect(
      problems({ env: { CLICKLEDGER_CLICK_PROT: '1', CLICKLEDGER_NOTHING_LIKE: '' } }),
    ).toEqual([
      'CLICKLEDGER_CLICK_PROT: no such setting; did you mean CLICKLEDGER_CLICK_PORT?',
      'CLICKLEDGER_NOTHING_LIKE: no such setting',
    ]);
  });

  test('a section that is no table, and a setting that is one, are refused', () => {
    const file = tomlFile('click = 3\n[data_dir]\na = 1\n[[api]]\nport = 1\n');
    const lines = problems({ file });
    expect(lines).toContain(`${file}:1: click: given 3, expected a table of settings`);
    expect(lines).toContain(`${file}:2: data_dir: given a table, expected text that is not empty`);
    expect(lines).toContain(`${file}:4: api: given [{"port":1}], expected a table of settings`);
  });

  test('numbers in the environment must be plain numbers within their limits', () => {
    for (const text of ['', ' 8080', '0x50', '1e3', '80.5', '-1', '65536', 'NaN']) {
      expect(problems({ env: { CLICKLEDGER_CLICK_PORT: text } })).toHaveLength(1);
    }
  });

  test('a named file that does not exist is refused, and the other sources are still checked', () => {
    const lines = problems({ file: NO_FILE, env: { CLICKLEDGER_CLICK_PORT: 'x' } });
    expect(lines).toHaveLength(2);
    expect(lines[0]).toStartWith(`${NO_FILE}: cannot be read (ENOENT`);
    expect(problems({ file: dir.path })[0]).toStartWith(`${dir.path}: cannot be read (EISDIR`);
  });

  test('a file that is not TOML is reported with its line', () => {
    const file = tomlFile('data_dir = "/d"\n\n[click\nport = 1\n');
    const lines = problems({ file });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toStartWith(`${file}:3: is not valid TOML: `);
  });

  test('variables that Kubernetes sets for a service are explained', () => {
    const env = { CLICKLEDGER_PORT: 'tcp://10.0.0.1:80' };
    try {
      load({ env });
      throw new Error('accepted');
    } catch (error) {
      expect((error as LedgerError).hint).toContain('enableServiceLinks');
    }
  });
});

describe('how settings relate', () => {
  test('the defaults keep every rule, and every rule names settings that exist', () => {
    const config = configSchema.parse({});
    for (const relation of RELATIONS) {
      expect(relation.holds(config)).toBe(true);
      for (const key of relation.keys) expect(settingByKey(key)).toBeDefined();
    }
  });

  const broken: readonly [string, NonNullable<ConfigSources['flags']>][] = [
    ['counting.dedup_window_ms', { counting: { dedupWindowMs: 60_000 } }],
    ['reconcile.lookback_ms', { reconcile: { lookbackMs: 3_600_000 } }],
    ['log.retention_ms', { log: { retentionMs: 1_000 } }],
    [
      'counter.upsert_interval_ms',
      { counting: { latenessMs: 0, watermarkLagMs: 0 }, reconcile: { delayMs: 0 } },
    ],
    ['api.port', { api: { port: 80 }, click: { port: 80 } }],
    ['log.kafka.brokers', { log: { kind: 'kafka' } }],
    ['log.kafka.linger_ms', { log: { kafka: { lingerMs: 40 } } }],
    [
      'log.kafka.topic_retention_ms',
      { log: { kind: 'kafka', kafka: { brokers: 'b:9092', topicRetentionMs: 3_600_000 } } },
    ],
    ['log.kafka.sasl_username', { log: { kafka: { saslMechanism: 'PLAIN' } } }],
    ['archive.s3.bucket', { archive: { kind: 's3' } }],
    ['warehouse.clickhouse.replicated', { warehouse: { clickhouse: { cluster: 'c' } } }],
    ['catalog.postgres.url', { catalog: { kind: 'postgres' } }],
    ['catalog.postgres.table', { catalog: { postgres: { table: '' } } }],
    [
      'control.postgres.url',
      {
        control: { kind: 'postgres' },
        log: { kind: 'kafka', kafka: { brokers: 'b:9092' } },
        archive: { kind: 's3', s3: { bucket: 'clicks' } },
        warehouse: { kind: 'clickhouse' },
      },
    ],
    ['control.kind', { control: { kind: 'postgres', postgres: { url: 'postgres://db/ledger' } } }],
    [
      'archive.s3.conditional_put',
      {
        control: { kind: 'postgres', postgres: { url: 'postgres://db/ledger' } },
        log: { kind: 'kafka', kafka: { brokers: 'b:9092' } },
        archive: { kind: 's3', s3: { bucket: 'clicks', conditionalPut: false } },
        warehouse: { kind: 'clickhouse' },
      },
    ],
  ];
  for (const [key, flags] of broken) {
    test(`a configuration that breaks the rule about ${key} is refused with values and sources`, () => {
      const lines = problems({ flags });
      expect(lines).toHaveLength(1);
      expect(lines[0]).toStartWith(key);
      expect(lines[0]).toContain('(command line)');
    });
  }

  test('there is a case above for every rule', () => {
    expect(broken.map(([key]) => key)).toEqual(RELATIONS.map((relation) => relation.keys[0]!));
  });

  test('both ports may be 0', () => {
    expect(load({ flags: { api: { port: 0 }, click: { port: 0 } } }).api.port).toBe(0);
  });

  test('a rule is not reported on top of a value that is wrong by itself', () => {
    expect(problems({ flags: { log: { retentionMs: -1 } } })).toHaveLength(1);
  });
});

describe('the configuration in words', () => {
  test('the effective configuration, read as a file, gives the same configuration', () => {
    const config = load({
      flags: {
        dataDir: '/d "quoted" \\ path',
        click: { port: 1, storeAddress: 'none', countryHeader: 'cf-ipcountry' },
        counting: { latenessMs: 7 },
        reconcile: { driftAlert: 0.25 },
      },
    });
    const text = describeConfig(config);
    expect(text).toContain('lateness_ms = 7\n');
    expect(load({ file: tomlFile(text) })).toEqual(config);
    for (const setting of SETTINGS) expect(text).toContain(`${setting.key.split('.').at(-1)} = `);
  });

  test('docs/configuration.md is what the schema says (UPDATE_DOCS=1 writes it)', () => {
    const path = join(import.meta.dir, '../../docs/configuration.md');
    const page = configurationPage();
    if (process.env.UPDATE_DOCS === '1') writeFileSync(path, page);
    expect(readFileSync(path, 'utf8')).toBe(page);
  });
});
