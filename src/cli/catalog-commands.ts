/** Ads, signing keys, links and tokens: stores that work whether or not the product runs. */
import type { Command } from 'commander';
import { type ImportResult, importAds } from '../ads/import.ts';
import { createKey, retireKey } from '../ads/keys.ts';
import { scopeText, type TokenScope } from '../auth/tokens.ts';
import { isId } from '../event/click-event.ts';
import { shiftedClock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { recorded, withCatalog, withKeys, withTokens } from '../roles/access.ts';
import { refuseImportOfSynced } from '../roles/catalog-sync.ts';
import { signedLink } from '../signing/signature.ts';
import { adsStatusText } from './ads-status.ts';
import {
  type CommonFlags,
  configOf,
  endProgress,
  isoOrDash,
  print,
  progressLine,
  table,
  timeOf,
  withCommonFlags,
} from './context.ts';

export function addCatalogCommands(program: Command): void {
  addAdsCommands(program);
  addKeyCommands(program);
  addSignCommand(program);
  addTokenCommands(program);
}

function addAdsCommands(program: Command): void {
  const ads = program.command('ads').description('import and list ads');
  withCommonFlags(
    ads.command('import <file>').description('import ads from NDJSON or CSV, all or none'),
  )
    .addHelpText(
      'after',
      '\nColumns: ad_id, advertiser_id, campaign_id, target_url, optional pass_query.',
    )
    .action(async (file: string, flags: CommonFlags) => {
      const progress = progressLine();
      const config = configOf(flags);
      refuseImportOfSynced(config);
      const { rows, added, changed, unchanged } = await recorded(
        config,
        { action: 'ads.import' },
        () =>
          withCatalog(config, async (catalog) => {
            const result = await importAds(file, catalog, {
              onProgress: ({ phase, done }) => progress(`${phase} ads`, done),
            });
            endProgress();
            if (result.ok) return result;
            throw importRefused(file, result);
          }),
      );
      print(`${rows} ads: ${added} added, ${changed} changed, ${unchanged} unchanged`);
    });

  withCommonFlags(ads.command('status').description('show where ads come from, and rows left out'))
    .option('--limit <n>', 'most rows to show', '20')
    .action(async (flags: CommonFlags & { limit: string }) => {
      const limit = positive(flags.limit, '--limit');
      const config = configOf(flags);
      await withCatalog(config, async (catalog) => {
        print(adsStatusText(catalog, { config, limit }));
      });
    });
  withCommonFlags(ads.command('list').description('list ads by id'))
    .option('--advertiser <id>', 'only this advertiser’s')
    .option('--after <ad-id>', 'continue after this ad')
    .option('--limit <n>', 'most to list', '100')
    .action(async (flags: CommonFlags & { advertiser?: string; after?: string; limit: string }) => {
      const limit = positive(flags.limit, '--limit');
      await withCatalog(configOf(flags), async (catalog) => {
        const rows = catalog.list({
          limit,
          ...(flags.after === undefined ? {} : { afterAdId: flags.after }),
          ...(flags.advertiser === undefined ? {} : { advertiserId: flags.advertiser }),
        });
        print(
          table(
            ['ad_id', 'advertiser_id', 'campaign_id', 'pass_query', 'target_url'],
            rows.map((ad) => [
              ad.adId,
              ad.advertiserId,
              ad.campaignId,
              ad.passQuery ? 'yes' : 'no',
              ad.targetUrl,
            ]),
          ),
        );
        print(`${rows.length} of ${catalog.count()} ads`);
        if (rows.length === limit) print(`more: --after ${rows.at(-1)?.adId}`);
      });
    });
}

function importRefused(
  file: string,
  { rows, problems, problemCount }: Extract<ImportResult, { readonly ok: false }>,
): LedgerError {
  const lines = problems.map(({ line, reason }) => `  line ${line}: ${reason}`);
  const more = problemCount - problems.length;
  if (more > 0) lines.push(`  … and ${more} more`);
  return new LedgerError(
    'import_invalid',
    `${file}: ${problemCount} of ${rows} rows are wrong; nothing was imported\n${lines.join('\n')}`,
  );
}

function addKeyCommands(program: Command): void {
  const key = program.command('key').description('create, list and retire signing keys');
  withCommonFlags(
    key.command('create [kid]').description('create a signing key; both old and new verify'),
  ).action(async (kid: string | undefined, flags: CommonFlags) => {
    const config = configOf(flags);
    const created = await recorded(config, { action: 'keys.create' }, (note) =>
      withKeys(config, async (keys) => {
        const key = await createKey(keys, shiftedClock(config.clockOffsetMs), kid);
        note({ target: key.kid });
        return key;
      }),
    );
    print(`kid     ${created.kid}\nsecret  ${created.secret}`);
  });
  withCommonFlags(key.command('list').description('list signing keys'))
    .option('--secrets', 'show the secrets as well')
    .action(async (flags: CommonFlags & { secrets?: boolean }) => {
      await withKeys(configOf(flags), async (keys) => {
        const rows = keys
          .keys()
          .map((each) => [
            each.kid,
            isoOrDash(each.createdAtMs),
            isoOrDash(each.retiredAtMs),
            ...(flags.secrets ? [each.secret] : []),
          ]);
        print(table(['kid', 'created', 'retired', ...(flags.secrets ? ['secret'] : [])], rows));
      });
    });
  withCommonFlags(
    key.command('retire <kid>').description('retire a signing key; its links get 403'),
  )
    .option('--force', 'also the last active key; every click gets 403 then')
    .action(async (kid: string, flags: CommonFlags & { force?: boolean }) => {
      const config = configOf(flags);
      await recorded(config, { action: 'keys.retire', target: kid }, (note) => {
        const { force = false } = flags;
        if (force) note({ detail: 'force' });
        return withKeys(config, (keys) =>
          retireKey(keys, shiftedClock(config.clockOffsetMs), { kid, force }),
        );
      });
      print(`retired ${kid}`);
    });
}

function addSignCommand(program: Command): void {
  withCommonFlags(program.command('sign').description('print a signed click link'))
    .requiredOption('--imp <id>', 'impression id')
    .requiredOption('--ad <id>', 'ad id')
    .option('--base <url>', 'address of the click service')
    .option('--kid <kid>', 'key to sign with (default the newest)')
    .action(
      async (flags: CommonFlags & { imp: string; ad: string; base?: string; kid?: string }) => {
        const config = configOf(flags);
        await withKeys(config, async (keys) => {
          const active = keys.activeKeys();
          const signing =
            flags.kid === undefined ? active[0] : active.find(({ kid }) => kid === flags.kid);
          if (signing === undefined) {
            throw new LedgerError('kid_unknown', 'there is no such active key', {
              hint: '"clickledger key create" makes one; "clickledger up" makes the first.',
            });
          }
          const base = flags.base ?? `http://localhost:${config.click.port}`;
          const { maxUrlBytes } = config.click;
          print(signedLink({ ...signing, base, imp: flags.imp, ad: flags.ad, maxUrlBytes }));
        });
      },
    );
}

function addTokenCommands(program: Command): void {
  const token = program.command('token').description('create, list and revoke API tokens');
  addTokenCreate(token);
  withCommonFlags(token.command('list').description('list tokens (never their text)')).action(
    async (flags: CommonFlags) => {
      const tokens = await withTokens(configOf(flags), (store) => store.list());
      const rows = tokens.map((each) => [
        each.id,
        each.scope,
        each.advertiserId ?? '-',
        isoOrDash(each.createdAtMs),
        isoOrDash(each.expiresAtMs),
        isoOrDash(each.revokedAtMs),
        isoOrDash(each.lastUsedAtMs),
        each.name,
      ]);
      print(
        table(
          ['id', 'scope', 'advertiser', 'created', 'expires', 'revoked', 'last used', 'name'],
          rows,
        ),
      );
    },
  );
  withCommonFlags(
    token.command('revoke <id-or-token>').description('revoke a token at once'),
  ).action(async (idOrToken: string, flags: CommonFlags) => {
    const config = configOf(flags);
    await recorded(config, { action: 'tokens.revoke', target: idOrToken }, async () => {
      if (!(await withTokens(config, (tokens) => tokens.revoke(idOrToken)))) {
        throw new LedgerError('token_unknown', 'no token in force has this id', {
          hint: '"clickledger token list" shows them.',
        });
      }
    });
    print('revoked');
  });
}

function addTokenCreate(token: Command): void {
  withCommonFlags(token.command('create').description('create a token; it is shown once'))
    .option('--advertiser <id>', 'may read this advertiser’s numbers')
    .option('--admin', 'may do everything')
    .option('--name <text>', 'what it is for')
    .option('--expires <time>', 'ISO 8601 with a zone')
    .action(
      async (
        flags: CommonFlags & {
          advertiser?: string;
          admin?: boolean;
          name?: string;
          expires?: string;
        },
      ) => {
        const config = configOf(flags);
        const nowMs = shiftedClock(config.clockOffsetMs)();
        const scope = scopeOf(flags);
        const options = {
          ...(flags.name === undefined ? {} : { name: flags.name }),
          ...(flags.expires === undefined
            ? {}
            : { expiresAtMs: timeOf(flags.expires, nowMs, '--expires') }),
        };
        const created = await recorded(config, { action: 'tokens.create' }, async (note) => {
          const made = await withTokens(config, (tokens) => tokens.create(scope, options));
          note({ target: made.id, detail: scopeText(scope) });
          return made;
        });
        print(created.token);
      },
    );
}

function scopeOf(flags: { advertiser?: string; admin?: boolean }): TokenScope {
  if ((flags.advertiser === undefined) === (flags.admin !== true)) {
    throw new LedgerError('token_scope', 'a token is for one advertiser or for an admin', {
      hint: 'Give exactly one of --advertiser ID and --admin.',
    });
  }
  if (flags.advertiser === undefined) return { scope: 'admin' };
  if (!isId(flags.advertiser)) {
    throw new LedgerError('advertiser_invalid', `"${flags.advertiser}" is not an advertiser id`);
  }
  return { scope: 'read', advertiserId: flags.advertiser };
}

export function positive(text: string, flag: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new LedgerError('number_invalid', `${flag} "${text}" is not a whole number above 0`);
}
