/** The house rules that a syntax tree can show. Each gives its violations as `path:line: what`. */
import {
  isCallExpression,
  isElementAccessExpression,
  isIdentifier,
  isNewExpression,
  isPropertyAccessExpression,
  isStringLiteral,
  type Node,
  SyntaxKind,
} from 'typescript/unstable/ast';
import { lineAt, type ParsedFile, placeOf, walk } from './source-tree.ts';

export const MAX_FILE_LINES = 500;
export const MAX_FUNCTION_LINES = 70;

/** Where the machine's clock, chance and environment may be touched. */
const AMBIENT_HOMES = ['src/platform/', 'src/config/', 'src/roles/', 'src/main.ts'];
const CONSOLE_HOMES = ['src/cli/'];

const AMBIENT: Readonly<Record<string, string>> = {
  'Date.now': 'take a Clock',
  'Math.random': 'take the random value as a parameter',
  'process.env': 'take a setting from the configuration',
  'Bun.env': 'take a setting from the configuration',
  'performance.now': 'use monotonicMs of platform/clock.ts',
};

const FUNCTIONS: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.FunctionExpression,
  SyntaxKind.ArrowFunction,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.Constructor,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor,
]);

export interface Length {
  readonly place: string;
  readonly lines: number;
}

export function fileLengths(files: readonly ParsedFile[]): Length[] {
  return files.map((file) => ({
    place: file.path,
    lines: file.text.split('\n').length - (file.text.endsWith('\n') ? 1 : 0),
  }));
}

/** Lines of every function from its first word to its last brace, comments before it left out. */
export function functionLengths(files: readonly ParsedFile[]): Length[] {
  return files.flatMap((file) => {
    const lengths: Length[] = [];
    walk(file.tree, (node) => {
      if (!FUNCTIONS.has(node.kind)) return;
      const lines = lineAt(file, node.end) - lineAt(file, node.getStart(file.tree)) + 1;
      lengths.push({ place: placeOf(file, node), lines });
    });
    return lengths;
  });
}

export function tooLong(lengths: readonly Length[], limit: number): string[] {
  return lengths
    .filter(({ lines }) => lines > limit)
    .map(({ place, lines }) => `${place}: ${lines} lines, at most ${limit}`);
}

export function anyTypes(files: readonly ParsedFile[]): string[] {
  return findNodes(files, (node) =>
    node.kind === SyntaxKind.AnyKeyword ? 'any: say what it is, or use unknown' : undefined,
  );
}

export function ambientReads(files: readonly ParsedFile[]): string[] {
  return findNodes(outside(files, AMBIENT_HOMES), (node) => {
    if (isCalledDate(node)) return 'Date of now: take a Clock';
    const name = memberName(node);
    const instead = name === undefined ? undefined : AMBIENT[name];
    return instead === undefined ? undefined : `${name}: ${instead}`;
  });
}

export function consoleUses(files: readonly ParsedFile[]): string[] {
  return findNodes(outside(files, CONSOLE_HOMES), (node) =>
    memberName(node)?.startsWith('console.') ? 'console: take a logger' : undefined,
  );
}

function outside(files: readonly ParsedFile[], homes: readonly string[]): ParsedFile[] {
  return files.filter((file) => !homes.some((home) => file.path.startsWith(home)));
}

function findNodes(
  files: readonly ParsedFile[],
  problemOf: (node: Node) => string | undefined,
): string[] {
  return files.flatMap((file) => {
    const problems: string[] = [];
    walk(file.tree, (node) => {
      const problem = problemOf(node);
      if (problem !== undefined) problems.push(`${placeOf(file, node)}: ${problem}`);
    });
    return problems;
  });
}

/** `new Date()` and `Date()` read the clock; `new Date(ms)` does not. */
function isCalledDate(node: Node): boolean {
  if (!isNewExpression(node) && !isCallExpression(node)) return false;
  if (!isIdentifier(node.expression) || node.expression.text !== 'Date') return false;
  return isCallExpression(node) || (node.arguments?.length ?? 0) === 0;
}

/** `object.name` of a member of a plain name, however it is written. */
function memberName(node: Node): string | undefined {
  if (isPropertyAccessExpression(node)) {
    return isIdentifier(node.expression) ? `${node.expression.text}.${node.name.text}` : undefined;
  }
  if (!isElementAccessExpression(node) || !isIdentifier(node.expression)) return undefined;
  const member = node.argumentExpression;
  return member !== undefined && isStringLiteral(member)
    ? `${node.expression.text}.${member.text}`
    : `${node.expression.text}.`;
}
