/** Pieces of answers that several operations have in common. */
import { z } from 'zod';
import type { Answer } from './operation.ts';

export const instantText = z.iso.datetime({ offset: true });
export const nullableInstant = instantText.nullable();
export const nextCursor = z
  .string()
  .nullable()
  .describe('Where the next page begins; null on the last one.');

export function jsonContent(schema: z.ZodType): Required<Pick<Answer, 'content'>> {
  return { content: [{ type: 'application/json', schema }] };
}

export function json(status: number, description: string, shape: z.ZodRawShape): Answer {
  return { status, description, ...jsonContent(z.object(shape)) };
}

/** What a long action answers, line by line; see `action-stream.ts`. */
export function actionAnswer(result: z.ZodRawShape): Answer {
  const line = z.object({
    progress: z
      .object({ message: z.string(), done: z.number().optional(), total: z.number().optional() })
      .optional(),
    result: z.looseObject(result).optional(),
    error: z
      .object({
        code: z.string(),
        kind: z.enum(['refuse', 'retry']),
        message: z.string(),
        hint: z.string().optional(),
      })
      .optional(),
  });
  return {
    status: 200,
    description:
      'Lines of progress, blank lines while there is nothing to say, then one line with `result` or `error`. ' +
      'An answer without that last line was cut off; the action may have been done, and can be repeated.',
    content: [{ type: 'application/x-ndjson', schema: line }],
  };
}
