/** Pieces that several sections of the settings are made of. */
import { z } from 'zod';

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

export const port = z.int().min(0).max(65535);
export const ms = (min: number, max: number) => z.int().min(min).max(max);

/** How a database of PostgreSQL is spoken to, whatever is read from it. */
export const postgresTls = {
  tls: z
    .enum(['disable', 'prefer', 'require', 'verify-full'])
    .default('prefer')
    .describe('As `sslmode`; only `verify-full` knows the server by its certificate.'),
  tlsCaFile: z
    .string()
    .default('')
    .describe('File of the certificates to trust, PEM; it implies `verify-full`.'),
};
