/** Parameters of the admin actions. */
import { z } from 'zod';
import { oneOf, text, wholeNumber } from './parameters.ts';

const MAX_DEAD_LETTERS = 10_000;

export const deadLettersSchema = z.strictObject({
  limit: wholeNumber(1, MAX_DEAD_LETTERS).default(100).describe('Most that are listed.'),
  waiting: oneOf(['true', 'false']).default('true').describe('Only those not redriven yet.'),
});
export const reconcileSchema = z.strictObject({
  hour: text('the start of an hour').optional().describe('Recounts this hour only.'),
  until: text('a time')
    .optional()
    .describe('Finalises hours that end by then, without the usual delay.'),
});
export const redriveSchema = z.strictObject({
  id: text('the id of a dead letter').optional().describe('This one.'),
  reason: text('a reason of dead letters').optional().describe('All of this reason.'),
  all: z
    .literal(true, { error: 'Give true, or leave it out.' })
    .optional()
    .describe('All that wait.'),
});
