/**
 * Reads metric and label names out of a PromQL expression, for comparing them with what exists. It does
 * not check grammar: that is Prometheus's own tool's business.
 */

export interface Selector {
  readonly metric: string;
  readonly matchers: readonly {
    readonly label: string;
    readonly operator: string;
    readonly value: string;
  }[];
}

export interface PromqlNames {
  readonly selectors: readonly Selector[];
  /** Labels that aggregations keep. */
  readonly kept: readonly string[];
}

const TOKEN = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[A-Za-z_:][\w:]*|\d[\w.]*|[=!]~|[!=<>]=|\S/g;
const KEEPERS = new Set(['by', 'on', 'group_left', 'group_right', 'without', 'ignoring']);
const WORDS = new Set(['and', 'or', 'unless', 'bool', 'offset', 'inf', 'nan', ...KEEPERS]);

export function promqlNames(expression: string): PromqlNames {
  const tokens: readonly string[] = expression.match(TOKEN) ?? [];
  const selectors: Selector[] = [];
  const kept: string[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!;
    const next = tokens[at + 1];
    if (!/^[A-Za-z_:]/.test(token)) continue;
    if (KEEPERS.has(token) && next === '(') {
      const end = tokens.indexOf(')', at);
      kept.push(...tokens.slice(at + 2, end).filter((each) => each !== ','));
      at = end;
    } else if (next === '{') {
      const end = tokens.indexOf('}', at);
      selectors.push({ metric: token, matchers: matchersOf(tokens.slice(at + 2, end)) });
      at = end;
    } else if (next !== '(' && !WORDS.has(token.toLowerCase()) && !isAggregation(next)) {
      selectors.push({ metric: token, matchers: [] });
    }
  }
  return { selectors, kept };
}

/** `sum by (x) (…)`: the word before `by` is a function. */
function isAggregation(next: string | undefined): boolean {
  return next === 'by' || next === 'without';
}

function matchersOf(tokens: readonly string[]): Selector['matchers'] {
  const matchers: Selector['matchers'][number][] = [];
  for (let at = 0; at + 2 < tokens.length; at += 4) {
    const [label, operator, value] = tokens.slice(at, at + 3) as [string, string, string];
    matchers.push({ label, operator, value: value.slice(1, -1) });
  }
  return matchers;
}
