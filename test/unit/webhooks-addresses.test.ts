/** Which addresses are public, at the edges of what is not. */
import { describe, expect, test } from 'bun:test';
import { isPublicAddress } from '../../src/webhooks/addresses.ts';

describe('an address', () => {
  test('of a private, local, shared or reserved network is not public, up to the last one', () => {
    const outside = [
      ['0.0.0.0', '0.255.255.255'],
      ['10.0.0.0', '10.255.255.255'],
      ['100.64.0.0', '100.127.255.255'],
      ['127.0.0.1', '127.255.255.255'],
      ['169.254.0.1', '169.254.169.254'],
      ['172.16.0.0', '172.31.255.255'],
      ['192.168.0.0', '192.168.255.255'],
      ['198.18.0.0', '198.19.255.255'],
      ['224.0.0.1', '255.255.255.255'],
      ['::', '::1'],
      ['fc00::1', 'fdff::1'],
      ['fe80::1', 'fe80::1%eth0'],
      ['ff02::1', '2001:db8::1'],
    ].flat();
    expect(outside.filter(isPublicAddress)).toEqual([]);
  });

  test('that only wraps an IPv4 address is not public, whatever it wraps', () => {
    const wrapped = ['::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:8.8.8.8', '64:ff9b::a00:1'];
    expect([...wrapped, '2002:7f00:1::', '2001:0:a00:1::'].filter(isPublicAddress)).toEqual([]);
  });

  test('beside those networks is public', () => {
    const inside = ['1.1.1.1', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0'];
    const more = ['172.15.255.255', '172.32.0.0', '192.167.255.255', '223.255.255.255'];
    const v6 = ['2606:4700:4700::1111', '2a00:1450:4001::200e'];
    const all = [...inside, ...more, ...v6];
    expect(all.filter(isPublicAddress)).toEqual(all);
  });

  test('that is none is not public', () => {
    expect(['', 'localhost', '1.2.3', '1.2.3.4.5', 'x::'].filter(isPublicAddress)).toEqual([]);
  });
});
