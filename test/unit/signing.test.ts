import { describe, expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import { join } from 'node:path';
import fc from 'fast-check';
import { createVerifier, sign, signedLink } from '../../src/signing/signature.ts';
import { fcParams } from '../support/seed.ts';

const key = (kid: string, retiredAtMs: number | null = null) => ({
  kid,
  secret: `secret of ${kid}`,
  retiredAtMs,
});

test('every vector of docs/signing.md is what we sign and verify', async () => {
  const doc = await Bun.file(join(import.meta.dir, '../../docs/signing.md')).text();
  const vectors = doc
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => [...line.matchAll(/`([^`]*)`/g)].map((match) => match[1]!));
  expect(vectors.length).toBeGreaterThanOrEqual(3);
  for (const [secret, imp, ad, sig] of vectors) {
    expect(sign(secret!, imp!, ad!)).toBe(sig!);
    const verifier = createVerifier([{ kid: 'k', secret: secret!, retiredAtMs: null }]);
    expect(verifier.verify(imp!, ad!, sig!, 'k')).toBe(true);
  }
});

test('signs what node:crypto signs, for any secret', () => {
  const property = fc.property(fc.string({ minLength: 1 }), fc.string(), (secret, imp) => {
    const expected = createHmac('sha256', secret).update(`v1\n${imp}\nad`).digest('base64url');
    expect(sign(secret, imp, 'ad')).toBe(expected);
  });
  fc.assert(property, fcParams());
});

describe('a verifier', () => {
  const verifier = createVerifier([key('k1'), key('k2'), key('old', 5)]);
  const sigs = ['k1', 'k2', 'old'].map((kid) => sign(`secret of ${kid}`, 'imp', 'ad'));

  test('takes every active key without kid, and only the named one with it', () => {
    const verify = (kid: string | undefined) =>
      sigs.map((sig) => verifier.verify('imp', 'ad', sig, kid));
    expect(verify(undefined)).toEqual([true, true, false]);
    expect(verify('k1')).toEqual([true, false, false]);
    expect(verify('k2')).toEqual([false, true, false]);
    expect(verify('old')).toEqual([false, false, false]);
    expect(verify('none')).toEqual([false, false, false]);
    expect(verify('')).toEqual([false, false, false]);
  });

  test('refuses another impression or ad, a cut, padded, altered or re-cased signature', () => {
    const sig = sigs[0]!;
    expect(verifier.verify('imp2', 'ad', sig, undefined)).toBe(false);
    expect(verifier.verify('imp', 'ad2', sig, undefined)).toBe(false);
    expect(verifier.verify('imp\nad', '', sig, undefined)).toBe(false);
    for (const bad of ['', sig.slice(1), `${sig}=`, sig.toUpperCase(), `${sig}${sig}`]) {
      expect(verifier.verify('imp', 'ad', bad, undefined)).toBe(false);
    }
    for (let at = 0; at < sig.length; at++) {
      const other = sig[at] === 'A' ? 'B' : 'A';
      const altered = sig.slice(0, at) + other + sig.slice(at + 1);
      expect(verifier.verify('imp', 'ad', altered, undefined)).toBe(false);
    }
  });

  test('the last character’s unused bits cannot be varied', () => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const accepted = [...alphabet].filter((last) =>
      verifier.verify('imp', 'ad', sigs[0]!.slice(0, 42) + last, undefined),
    );
    expect(accepted).toHaveLength(1);
  });

  test('without keys verifies nothing', () => {
    expect(createVerifier([]).verify('imp', 'ad', sigs[0]!, undefined)).toBe(false);
  });
});

describe('a signed link', () => {
  const parts = { base: 'https://click.example.com', imp: 'i~1', ad: 'a.1', secret: 's' };

  test('carries both ids, the signature and the kid', () => {
    const sig = sign('s', 'i~1', 'a.1');
    const link = `https://click.example.com/v1/c?imp=i~1&ad=a.1&sig=${sig}`;
    expect(signedLink(parts)).toBe(link);
    expect(signedLink({ ...parts, base: 'https://click.example.com/', kid: 'k1' })).toBe(
      `${link}&kid=k1`,
    );
    expect(signedLink({ ...parts, base: 'http://e.com:8080/go/' })).toStartWith(
      'http://e.com:8080/go/v1/c?imp=',
    );
  });

  test('is refused when the click service would refuse it', () => {
    expect(() => signedLink({ ...parts, imp: 'a b' })).toThrow('impression id');
    expect(() => signedLink({ ...parts, imp: 'x'.repeat(129) })).toThrow('impression id');
    expect(() => signedLink({ ...parts, ad: '' })).toThrow('ad id');
    expect(() => signedLink({ ...parts, kid: 'k&x' })).toThrow('kid');
    expect(() => signedLink({ ...parts, secret: '' })).toThrow('nothing');
    for (const base of ['click.example.com', 'ftp://e.com', 'https://e.com/?a=1', 'https://e#x']) {
      expect(() => signedLink({ ...parts, base })).toThrow('address of a click service');
    }
    const deep = `https://e.com/${'p'.repeat(8_192)}`;
    expect(() => signedLink({ ...parts, base: deep })).toThrow('bytes');
  });

  test('fits the limit exactly or is refused', () => {
    const target = signedLink(parts).slice('https://click.example.com'.length);
    expect(signedLink({ ...parts, maxUrlBytes: target.length })).toEndWith(target);
    expect(() => signedLink({ ...parts, maxUrlBytes: target.length - 1 })).toThrow('bytes');
  });
});
