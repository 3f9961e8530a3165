/**
 * The configuration in words: the effective one as TOML (`config check`, and at start), and the
 * reference page `docs/configuration.md`. Both are written from the schema.
 */
import { stringify } from 'smol-toml';
import { RELATIONS } from './relations.ts';
import type { Config } from './schema.ts';
import { SECTIONS, SETTINGS, type Setting, valueAt } from './settings.ts';

/** The effective configuration as a file that gives this same configuration, but for secrets. */
export function describeConfig(config: Config): string {
  const settingLine = (setting: Setting): string => {
    const value = valueAt(config, setting);
    if (setting.isSecret && value !== '') return `# ${lastName(setting)} = (set, and not shown)`;
    return stringify({ [lastName(setting)]: value }).trimEnd();
  };
  const tables = SECTIONS.map((section) =>
    [`\n[${section}]`, ...inSection(section).map(settingLine)].join('\n'),
  );
  return `${[...inSection('').map(settingLine), ...tables].join('\n')}\n`;
}

/** The text of `docs/configuration.md`. */
export function configurationPage(): string {
  const tables = ['', ...SECTIONS].map((section) => {
    const heading = section === '' ? '## Without a section' : `## [${section}]`;
    return `${heading}\n\n${inSection(section).map(settingEntry).join('\n')}\n`;
  });
  const rules = RELATIONS.map(({ rule, because }) => `- ${rule}, otherwise ${because}.`).join('\n');
  return [PREFACE, ...tables, `## How settings must relate\n\n${rules}\n`].join('\n');
}

const PREFACE = `# Configuration

This page is written from \`src/config/schema.ts\`; change it there, then run
\`UPDATE_DOCS=1 npx bun test test/unit/config.test.ts\`.

A setting comes from, the later the stronger: its default, the file (\`./clickledger.toml\` if it
exists, or the one named by \`--config FILE\`, which must exist), the environment, the command line.
Unknown keys and unknown \`CLICKLEDGER_*\` variables are refused. All problems are reported at once.
\`clickledger config check\` prints the effective configuration and starts nothing.

Durations are in milliseconds and end in \`_ms\`, sizes in bytes and end in \`_bytes\`.
\`CLICKLEDGER_DATA\` is short for \`CLICKLEDGER_DATA_DIR\`, \`CLICKHOUSE_PASSWORD\` for
\`CLICKLEDGER_WAREHOUSE_CLICKHOUSE_PASSWORD\`.

On Kubernetes, a service called \`clickledger\` or \`clickledger-click\` makes the cluster set
variables with our prefix in every pod (\`CLICKLEDGER_PORT=tcp://…\`). Set
\`enableServiceLinks: false\` in the pod, or the start is refused.

\`\`\`toml
data_dir = "/var/lib/clickledger"

[click]
port = 8080
on_log_failure = "redirect"

[counting]
lateness_ms = 300_000
\`\`\`
`;

function settingEntry(setting: Setting): string {
  const shownDefault = setting.defaultText ?? `\`${JSON.stringify(setting.defaultValue)}\``;
  return [
    `- **\`${lastName(setting)}\`** (\`${setting.envName}\`): ${setting.description}`,
    `  Default ${shownDefault}; ${setting.expected}.`,
  ].join('\n');
}

function inSection(section: string): readonly Setting[] {
  return SETTINGS.filter((setting) => setting.section === section);
}

function lastName(setting: Setting): string {
  return setting.key.slice(setting.key.lastIndexOf('.') + 1);
}
