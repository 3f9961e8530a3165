/**
 * The project's own source as syntax trees, for the tests that hold the house rules.
 *
 * TypeScript 7 offers its parser through an API that it still calls unstable; the synchronous
 * flavour needs Node's internals and does not run under Bun, the asynchronous one does. It is used
 * in this file only.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import {
  isCallExpression,
  isExportDeclaration,
  isImportDeclaration,
  isNamedExports,
  isNamedImports,
  isStringLiteral,
  type Node,
  type SourceFile,
  SyntaxKind,
} from 'typescript/unstable/ast';
import { API } from 'typescript/unstable/async';
import { tempDir } from './temp-dir.ts';

export const ROOT = join(import.meta.dir, '../..');

export interface ParsedFile {
  /** Relative to the project's root, e.g. `src/log/port.ts`. */
  readonly path: string;
  readonly text: string;
  readonly tree: SourceFile;
}

export interface Import {
  /** As it is written. */
  readonly specifier: string;
  /** Project path that a relative specifier names; undefined for packages and built-in modules. */
  readonly target: string | undefined;
  /** Whether only types are imported. */
  readonly typeOnly: boolean;
  readonly line: number;
}

/** Parses every TypeScript file below `src` of the project in `root`, in the order of their paths. */
export async function parseSource(root: string = ROOT): Promise<ParsedFile[]> {
  const api = new API({ cwd: root });
  try {
    const snapshot = await api.updateSnapshot({ openProjects: [join(root, 'tsconfig.json')] });
    const program = (await snapshot.getProjects())[0]!.program;
    const paths = (await program.getSourceFileNames())
      .map((name) => relative(root, name))
      .filter((path) => path.startsWith('src/'))
      .sort();
    return await Promise.all(
      paths.map(async (path) => {
        const tree = (await program.getSourceFile(join(root, path)))!;
        return { path, tree, text: tree.text };
      }),
    );
  } finally {
    await api.close();
  }
}

/** Parses made-up files, so that a rule can be shown to find what it looks for. */
export async function parseTexts(texts: Readonly<Record<string, string>>): Promise<ParsedFile[]> {
  const dir = tempDir('source');
  try {
    writeFileSync(
      join(dir.path, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: { noLib: true, types: [] }, include: ['src'] }),
    );
    for (const [path, text] of Object.entries(texts)) {
      mkdirSync(dirname(join(dir.path, path)), { recursive: true });
      writeFileSync(join(dir.path, path), text);
    }
    return await parseSource(dir.path);
  } finally {
    dir.remove();
  }
}

/** Calls `visit` for every node of the file, parents first. */
export function walk(node: Node, visit: (node: Node) => void): void {
  visit(node);
  node.forEachChild((child) => {
    walk(child, visit);
  });
}

/** 1-based line of a position. */
export function lineAt(file: ParsedFile, position: number): number {
  return file.text.slice(0, position).split('\n').length;
}

/** `path:line` of a node. */
export function placeOf(file: ParsedFile, node: Node): string {
  return `${file.path}:${lineAt(file, node.getStart(file.tree))}`;
}

export function importsOf(file: ParsedFile): Import[] {
  const found: Import[] = [];
  const add = (node: Node, specifier: Node | undefined, typeOnly: boolean): void => {
    if (specifier === undefined || !isStringLiteral(specifier)) return;
    const target = specifier.text.startsWith('.')
      ? join(dirname(file.path), specifier.text)
      : undefined;
    const line = lineAt(file, node.getStart(file.tree));
    found.push({ specifier: specifier.text, target, typeOnly, line });
  };
  walk(file.tree, (node) => {
    if (isImportDeclaration(node)) add(node, node.moduleSpecifier, importsTypesOnly(node));
    else if (isExportDeclaration(node)) add(node, node.moduleSpecifier, exportsTypesOnly(node));
    else if (isCallExpression(node) && node.expression.kind === SyntaxKind.ImportKeyword) {
      add(node, node.arguments[0], false);
    }
  });
  return found;
}

function importsTypesOnly(node: Node): boolean {
  if (!isImportDeclaration(node) || node.importClause === undefined) return false;
  const { phaseModifier, name, namedBindings } = node.importClause;
  if (phaseModifier === SyntaxKind.TypeKeyword) return true;
  if (name !== undefined || namedBindings === undefined || !isNamedImports(namedBindings)) {
    return false;
  }
  return namedBindings.elements.every((element) => element.isTypeOnly);
}

function exportsTypesOnly(node: Node): boolean {
  if (!isExportDeclaration(node)) return false;
  if (node.isTypeOnly) return true;
  const clause = node.exportClause;
  return (
    clause !== undefined &&
    isNamedExports(clause) &&
    clause.elements.every((element) => element.isTypeOnly)
  );
}
