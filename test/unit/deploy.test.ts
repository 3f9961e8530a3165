/** Alert rules and dashboard ask only for what the product exposes, and every alert has its page. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CASES, HEALTHY, type Series } from '../support/alert-cases.ts';
import { type KnownMetric, type KnownMetrics, knownMetrics } from '../support/known-metrics.ts';
import { promqlNames } from '../support/promql.ts';
import { ROOT } from '../support/source-tree.ts';
import { tempDir } from '../support/temp-dir.ts';

const RULES_PATH = 'deploy/prometheus/alerts.yaml';
const PAGES = 'docs/operating/alerts';
/** What Prometheus itself adds to every series that it scrapes. */
const SCRAPE_LABELS = ['instance', 'job'];
/** Prometheus's own series of a target that it asks. */
const UP: KnownMetric = {
  ...{ name: 'up', type: 'gauge', help: 'Whether the scrape succeeded.' },
  ...{ labels: SCRAPE_LABELS, values: new Map() },
};
const SEVERITIES = ['critical', 'warning', 'info'];

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook: string };
}
interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly datasource?: { readonly uid: string };
  readonly gridPos: {
    readonly x: number;
    readonly y: number;
    readonly w: number;
    readonly h: number;
  };
  readonly targets?: readonly {
    readonly refId: string;
    readonly expr: string;
    readonly legendFormat: string;
  }[];
}
interface Dashboard {
  readonly title: string;
  readonly uid: string;
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { name: string; type: string; query: string }[] };
}

const RULES = (
  Bun.YAML.parse(read(RULES_PATH)) as { groups: { name: string; rules: Rule[] }[] }
).groups.flatMap(({ rules }) => rules);
const DASHBOARD = JSON.parse(read('deploy/grafana/clickledger.json')) as Dashboard;
const TARGETS = DASHBOARD.panels.flatMap(({ title, targets = [] }) =>
  targets.map((target) => ({
    ...target,
    title,
    expr: target.expr.replaceAll('$__rate_interval', '5m'),
  })),
);

let known: KnownMetrics & { readonly texts: readonly string[] };
beforeAll(async () => {
  const exposed = await knownMetrics();
  const withScrapes = new Map([...exposed, [UP.name, UP]]);
  known = Object.assign(withScrapes, { texts: exposed.texts });
});

/** What an expression asks for that does not exist. */
function problemsOf(expr: string): string[] {
  const { selectors, kept } = promqlNames(expr);
  const problems: string[] = selectors.length === 0 ? ['no metric'] : [];
  for (const { metric, matchers } of selectors) {
    const found = known.get(metric);
    if (found === undefined) {
      problems.push(`no metric ${metric}`);
      continue;
    }
    for (const { label, operator, value } of matchers) {
      if (![...found.labels, ...SCRAPE_LABELS].includes(label)) {
        problems.push(`${metric} has no label ${label}`);
      }
      const values = found.values.get(label);
      if (values === undefined) continue;
      const alternatives = operator.endsWith('~') ? value.split('|') : [value];
      for (const each of alternatives) {
        const pattern = new RegExp(`^(?:${operator.endsWith('~') ? each : RegExp.escape(each)})$`);
        if (![...values].some((one) => pattern.test(one))) {
          problems.push(`${metric}{${label}} is never ${each}`);
        }
      }
    }
  }
  const labels = selectors.flatMap(({ metric }) => known.get(metric)?.labels ?? []);
  for (const label of kept) {
    if (![...labels, ...SCRAPE_LABELS].includes(label)) problems.push(`nothing has ${label}`);
  }
  return problems;
}

/** Labels that a text shows must be left by the expression. */
function lostLabels(text: string, pattern: RegExp, expr: string): string[] {
  const { kept } = promqlNames(expr);
  return [...text.matchAll(pattern)]
    .map((match) => match[1]!)
    .filter((each) => !kept.includes(each));
}

describe('what the checks find', () => {
  test('names of metrics and labels are read out of an expression', () => {
    const names = promqlNames(
      'histogram_quantile(0.9, sum by (le, route) (rate(a_bucket{x=~"1|2", y!="}"}[5m]))) / scalar(sum(b)) > 6 * 3600 and absent(c) unless d offset 5m',
    );
    expect(names.selectors.map(({ metric }) => metric)).toEqual(['a_bucket', 'b', 'c', 'd']);
    expect(names.selectors[0]!.matchers).toEqual([
      { label: 'x', operator: '=~', value: '1|2' },
      { label: 'y', operator: '!=', value: '}' },
    ]);
    expect(names.kept).toEqual(['le', 'route']);
  });

  test('a metric, a label and a value that do not exist are found', () => {
    expect(problemsOf('clickledger_nothing > 0')).toEqual(['no metric clickledger_nothing']);
    expect(problemsOf('sum by (colour) (clickledger_held_rows)')).toEqual(['nothing has colour']);
    expect(problemsOf('clickledger_click_requests_total{outcome=~"internal|gone"}')).toEqual([
      'clickledger_click_requests_total{outcome} is never gone',
    ]);
    expect(problemsOf('clickledger_held_rows{kind="x"}')).toEqual([
      'clickledger_held_rows has no label kind',
    ]);
    expect(problemsOf('clickledger_click_redirect_seconds > 0')).not.toEqual([]);
  });
});

describe('alert rules', () => {
  test('ask for metrics, labels and values that exist', () => {
    expect(RULES.length).toBeGreaterThan(20);
    const wrong = RULES.map(({ alert, expr }) => ({ alert, problems: problemsOf(expr) }));
    expect(wrong.filter(({ problems }) => problems.length > 0)).toEqual([]);
  });

  test('have a name of their own, a known severity, a summary and the page of that name', () => {
    const names = RULES.map(({ alert }) => alert);
    expect([...new Set(names)]).toEqual(names);
    for (const { alert, expr, labels, annotations } of RULES) {
      expect(alert).toMatch(/^[A-Z][A-Za-z]+$/);
      expect(SEVERITIES).toContain(labels.severity);
      expect(annotations.summary.length).toBeGreaterThan(20);
      expect(annotations.runbook).toBe(`${PAGES}/${alert}.md`);
      expect(lostLabels(annotations.summary, /\$labels\.(\w+)/g, expr)).toEqual([]);
    }
  });

  test('and pages are the same set; each page says what to do, and the index lists it', () => {
    const pages = readdirSync(join(ROOT, PAGES)).sort();
    expect(pages).toEqual(RULES.map(({ alert }) => `${alert}.md`).sort());
    const index = read('docs/operating/alerts.md');
    for (const { alert, labels } of RULES) {
      const page = read(`${PAGES}/${alert}.md`);
      expect(page.split('\n')[0]).toBe(`# ${alert}`);
      for (const part of ['Means', 'Look at', 'Do', 'If ignored']) {
        expect(page).toContain(`**${part}.**`);
      }
      expect(index).toMatch(
        new RegExp(`\\| \\[${alert}\\]\\(alerts/${alert}\\.md\\) \\|.*\\| ${labels.severity} \\|`),
      );
    }
  });
});

describe('the dashboard', () => {
  test('asks for metrics, labels and values that exist, and shows labels that are there', () => {
    expect(TARGETS.length).toBeGreaterThan(40);
    const wrong = TARGETS.map(({ title, expr, legendFormat }) => ({
      title,
      problems: [
        ...problemsOf(expr),
        ...lostLabels(legendFormat, /\{\{\s*(\w+)\s*\}\}/g, expr).map((each) => `lost ${each}`),
      ],
    }));
    expect(wrong.filter(({ problems }) => problems.length > 0)).toEqual([]);
  });

  test('shows every metric that the product exposes', () => {
    const shown = new Set(
      TARGETS.flatMap(({ expr }) => promqlNames(expr).selectors).map(({ metric }) =>
        metric.replace(/_(bucket|sum|count)$/, ''),
      ),
    );
    const onAlertsOnly = ['clickledger_log_lost_records', 'clickledger_ledger_log_healthy', 'up'];
    const names = [...new Set([...known.values()].map(({ name }) => name))];
    expect(names.filter((name) => !shown.has(name)).sort()).toEqual(onAlertsOnly.sort());
  });

  test('has the form that Grafana loads: ids, queries, a data source to choose, no overlaps', () => {
    const { panels, templating } = DASHBOARD;
    expect(DASHBOARD.uid).toBe('clickledger');
    expect(DASHBOARD.schemaVersion).toBeGreaterThan(30);
    expect(templating.list).toContainEqual(
      expect.objectContaining({ name: 'datasource', type: 'datasource', query: 'prometheus' }),
    );
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const panel of panels) {
      const { x, w, h } = panel.gridPos;
      expect(x + w).toBeLessThanOrEqual(24);
      expect(Math.min(w, h)).toBeGreaterThan(0);
      if (panel.type === 'row') continue;
      expect(panel.datasource?.uid).toMatch(/^\$\{datasource\}$/);
      expect(panel.targets!.length).toBeGreaterThan(0);
      const refs = panel.targets!.map(({ refId }) => refId);
      expect(new Set(refs).size).toBe(refs.length);
      for (const { expr } of panel.targets!) expect(expr).not.toBe('');
    }
    const overlapping = panels.flatMap((one, i) =>
      panels.slice(i + 1).filter((other) => overlap(one.gridPos, other.gridPos)),
    );
    expect(overlapping).toEqual([]);
  });
});

function overlap(a: Panel['gridPos'], b: Panel['gridPos']): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

const PROMTOOL = Bun.which('promtool');
if (PROMTOOL === null) {
  process.stderr.write('deploy: promtool is not installed, its checks of the rules are skipped\n');
}

describe.skipIf(PROMTOOL === null)("by Prometheus's own tool", () => {
  const promtool = (...args: string[]): { code: number; output: string } => {
    const { exitCode, stdout, stderr } = Bun.spawnSync([PROMTOOL!, ...args]);
    return { code: exitCode, output: `${stdout}${stderr}` };
  };
  const inFile = (name: string, content: object): { code: number; output: string } => {
    const dir = tempDir('promtool');
    const path = join(dir.path, name);
    writeFileSync(path, JSON.stringify(content));
    const result = promtool(
      ...(name === 'rules.json' ? ['check', 'rules'] : ['test', 'rules']),
      path,
    );
    dir.remove();
    return result;
  };

  test('rules and example configurations are valid', () => {
    expect(promtool('check', 'rules', join(ROOT, RULES_PATH))).toMatchObject({ code: 0 });
    for (const name of ['prometheus.yaml', 'prometheus-many-machines.yaml']) {
      const config = join(ROOT, 'deploy/prometheus', name);
      expect(promtool('check', 'config', config)).toMatchObject({ code: 0 });
    }
  });

  test('every query of the dashboard is valid', () => {
    const rules = TARGETS.map(({ expr }, i) => ({ record: `panel:query:${i}`, expr }));
    const { code, output } = inFile('rules.json', { groups: [{ name: 'panels', rules }] });
    expect({ code, output }).toMatchObject({ code: 0 });
  });

  const caseOf = (name: string, series: readonly Series[], firing: readonly string[]): object => ({
    name,
    interval: '30s',
    input_series: series.map(([one, values]) => ({ series: one, values })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"} > 0)',
        eval_time: '1h',
        exp_samples: [...firing]
          .sort()
          .map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
      },
    ],
  });

  test('no alert fires on a healthy product; each fires on its case, and no other with it', () => {
    expect(Object.keys(CASES).sort()).toEqual(RULES.map(({ alert }) => alert).sort());
    const cases = Object.entries(CASES).map(([alert, { series, also = [] }]) => {
      const replaced = new Set(series.map(([name]) => name));
      const all = [...HEALTHY.filter(([name]) => !replaced.has(name)), ...series];
      const there = all.filter(([, values]) => values !== '');
      return caseOf(alert, there, [alert, ...also]);
    });
    const { code, output } = inFile('cases.json', {
      rule_files: [join(ROOT, RULES_PATH)],
      evaluation_interval: '1m',
      tests: [caseOf('healthy', HEALTHY, []), ...cases],
    });
    expect({ code, output }).toMatchObject({ code: 0 });
  });

  test('names and types of metrics keep to the conventions', () => {
    // A counter is a role of the product here, not a type of metric.
    const knownWrong = /^clickledger_counter_\w+ metric name should not include type 'counter'$/;
    const output = known.texts.map((text) => {
      const result = Bun.spawnSync([PROMTOOL!, 'check', 'metrics'], { stdin: Buffer.from(text) });
      return `${result.stdout}${result.stderr}`;
    });
    const wrong = output
      .join('')
      .split('\n')
      .filter((line) => line !== '' && !knownWrong.test(line));
    expect(wrong).toEqual([]);
  });
});
