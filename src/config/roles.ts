/** The settings of roles that run on their own; what they mean is in docs/operating/many-machines.md. */
import { z } from 'zod';
import { HOUR_MS, ms, port, postgresTls } from './pieces.ts';

/** The database that the roles share; what it means is in docs/operating/many-machines.md. */
const controlDatabase = z
  .strictObject({
    url: z
      .string()
      .regex(/^(postgres(ql)?:\/\/\S+)?$/)
      .default('')
      .meta({
        description: 'Where the database is, e.g. `postgres://clickledger@db:5432/clickledger`.',
        // A password stands in it.
        secret: true,
      }),
    ...postgresTls,
    timeoutMs: ms(1_000, HOUR_MS).default(10_000).describe('Longest time of one request.'),
    maxConnections: z.int().min(1).max(100).default(4).describe('Most connections of one process.'),
  })
  .prefault({});

export const roleSettings = z
  .strictObject({
    port: port
      .default(8082)
      .describe(
        'Port of a counter, archiver, reconciler, shipper or catalog role: `/healthz`, `/readyz`, `/metrics`. 0 picks a free one.',
      ),
    host: z.string().default('0.0.0.0').describe('Address that the role’s port listens on.'),
    instance: z
      .string()
      .regex(/^[A-Za-z0-9._-]{0,200}$/)
      .default('')
      .meta({
        description:
          'Name of this machine among the others, the same after a restart: a role that comes back under it gets the partitions that it had.',
        defaultText: 'the host name',
      }),
    drainMs: ms(0, 600_000)
      .default(25_000)
      .describe('How long a stopping role finishes what it has begun.'),
  })
  .prefault({});

export const controlSettings = z
  .strictObject({
    kind: z
      .enum(['sqlite', 'postgres'])
      .default('sqlite')
      .describe(
        'Where tokens, audit log, disputes, webhooks, dead letters and claims are: files below `data_dir`, for one ledger process; or a database, for roles of their own on many machines (`[control.postgres]`).',
      ),
    postgres: controlDatabase,
  })
  .prefault({});
