/** Tables: every one has a caption, headed columns, and scrolls by itself on a narrow screen. */
import type { ComponentChildren } from 'preact';
import { Empty } from './states.tsx';

export interface Column<T> {
  readonly head: string;
  readonly cell: (row: T) => ComponentChildren;
  readonly kind?: 'number' | 'code' | 'action';
  /** This column's cell is the row's heading. */
  readonly isRowHead?: boolean;
}

interface TableProps<T> {
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  readonly empty?: string;
  readonly emptyHint?: string;
  readonly tall?: boolean;
}

export function Table<T>(props: TableProps<T>) {
  const { caption, columns, rows, keyOf } = props;
  if (rows.length === 0) {
    return <Empty title={props.empty ?? 'Nothing here yet.'}>{props.emptyHint}</Empty>;
  }
  return (
    // biome-ignore lint/a11y/useSemanticElements: no fieldset, and no landmark beside its card.
    <div
      role="group"
      class={`scroll${props.tall === true ? ' scroll-tall' : ''}`}
      aria-label={caption}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
      tabIndex={0}
    >
      <table>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ head, kind }) => (
              <th key={head} scope="col" class={kind}>
                {kind === 'action' ? <span class="visually-hidden">{head}</span> : head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => (
                <Cell key={column.head} column={column} row={row} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell<T>({ column, row }: { column: Column<T>; row: T }) {
  const content = column.cell(row);
  if (column.isRowHead === true) {
    return (
      <th scope="row" class={column.kind}>
        {content}
      </th>
    );
  }
  return <td class={column.kind}>{content}</td>;
}
