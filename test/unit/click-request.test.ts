import { describe, expect, test } from 'bun:test';
import { isClickPath, otherParts, parseClick, pathOf, pathStart } from '../../src/click/request.ts';

const SIG = 'A'.repeat(43);
const GOOD = `imp=i1&ad=a1&sig=${SIG}`;

const parse = (query: string) => {
  const url = `http://t.example/v1/c?${query}`;
  return parseClick(url, pathStart(url));
};

describe('reading a click link', () => {
  test('the signed parameters are found in any order and between others', () => {
    const expected = { imp: 'i1', ad: 'a1', sig: SIG, kid: undefined };
    expect(parse(GOOD)).toEqual(expected);
    expect(parse(`sig=${SIG}&utm_source=x&ad=a1&&imp=i1`)).toEqual(expected);
    expect(parse(`${GOOD}&kid=k2`)).toEqual({ ...expected, kid: 'k2' });
  });

  test.each([
    ['nothing at all', ''],
    ['no impression', `ad=a1&sig=${SIG}`],
    ['no ad', `imp=i1&sig=${SIG}`],
    ['no signature', 'imp=i1&ad=a1'],
    ['an empty impression', `imp=&ad=a1&sig=${SIG}`],
    ['an impression without a value', `imp&ad=a1&sig=${SIG}`],
    ['a placeholder in braces', `imp={impression_id}&ad=a1&sig=${SIG}`],
    ['a placeholder in brackets', `imp=[IMP]&ad=a1&sig=${SIG}`],
    ['a placeholder in percent signs', `imp=%%CACHEBUSTER%%&ad=a1&sig=${SIG}`],
    ['a dollar placeholder', `imp=\${imp}&ad=a1&sig=${SIG}`],
    ['percent-encoding in the impression', `imp=i%31&ad=a1&sig=${SIG}`],
    ['percent-encoding in the ad', `imp=i1&ad=a%201&sig=${SIG}`],
    ['percent-encoding in the signature', `imp=i1&ad=a1&sig=${SIG}%3D`],
    ['a percent-encoded name', `%69mp=i1&ad=a1&sig=${SIG}`],
    ['padding after the signature', `imp=i1&ad=a1&sig=${SIG}=`],
    ['plain base64 in the signature', `imp=i1&ad=a1&sig=a+b/c`],
    ['an impression of 129 characters', `imp=${'x'.repeat(129)}&ad=a1&sig=${SIG}`],
    ['an empty key id', `${GOOD}&kid=`],
    ['names in upper case', `IMP=i1&AD=a1&SIG=${SIG}`],
    ['names that only begin alike', `impx=i1&adx=a1&sigx=${SIG}`],
  ])('%s is malformed', (_what, query) => {
    expect(parse(query)).toBe('malformed');
  });

  test.each(['imp=i2', 'imp=i1', 'imp', 'ad=a2', `sig=${SIG}`])(
    'a second %s is refused, even when it says the same',
    (part) => {
      expect(parse(`${GOOD}&${part}`)).toBe('repeated_parameter');
    },
  );

  test('a second kid is refused', () => {
    expect(parse(`${GOOD}&kid=k&kid=k`)).toBe('repeated_parameter');
  });

  test.each([
    `imp=i1&amp;ad=a1&amp;sig=${SIG}`,
    `imp=i1&amp;amp;ad=a1&amp;amp;sig=${SIG}`,
    `${GOOD}&amp;kid=k1`,
  ])('a link that was escaped for HTML once too often is told apart: %s', (query) => {
    expect(parse(query)).toBe('html_escaped');
  });

  test('an escaped ampersand before a foreign parameter does not stop a good link', () => {
    expect(parse(`${GOOD}&amp;utm_source=x`)).toMatchObject({ imp: 'i1' });
  });

  test.each(['x=%', 'x=%E0%A4%A', 'x=%83', 'x=%00', '%=1', '%25what%'])(
    'bad percent-encoding in a foreign parameter is not looked at: %s',
    (part) => {
      expect(parse(`${part}&${GOOD}&${part}`)).toMatchObject({ imp: 'i1', ad: 'a1' });
    },
  );

  test('a fragment that a client sends is no part of the last value', () => {
    expect(parse(`${GOOD}#top&imp=i2`)).toMatchObject({ sig: SIG });
  });

  test('foreign parameters keep names, values, order, duplicates and missing values', () => {
    const query = `my%20key=1&imp=i1&a.b=2&ad=a1&a[]=3&a[]=4&sig=${SIG}&a=&a&&z=%zz&kid=k#f`;
    const url = `https://t.example/v1/c?${query}`;
    expect(otherParts(url, pathStart(url))).toEqual([
      'my%20key=1',
      'a.b=2',
      'a[]=3',
      'a[]=4',
      'a=',
      'a',
      'z=%zz',
    ]);
  });
});

describe('telling a click path from others', () => {
  test.each([
    ['http://h/v1/c?x', true],
    ['https://h:8443/v1/c', true],
    ['/v1/c?x', true],
    ['http://h/v1/c/', false],
    ['http://h/v1/cx?x', false],
    ['http://h//v1/c?x', false],
    ['http://h/?/v1/c?x', false],
    ['http://h', false],
    ['http://v1/c?x', false],
  ])('%s is a click path: %p', (url, expected) => {
    expect(isClickPath(url, pathStart(url))).toBe(expected);
  });

  test('the path of another request ends at its query', () => {
    expect(pathOf('http://h/metrics?x=/v1/c', pathStart('http://h/metrics?x=/v1/c'))).toBe(
      '/metrics',
    );
  });
});
