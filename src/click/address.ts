/**
 * One address, read from text a stranger may have written: validated, in canonical form (RFC 5952),
 * and truncated for storing.
 */
import { isIPv4, isIPv6 } from 'node:net';

export interface Address {
  /** Canonical; an IPv4 address mapped into IPv6 is the IPv4 address. At most 39 characters. */
  readonly text: string;
  /** The /24 of an IPv4 and the /48 of an IPv6 address: a place, no longer a person. */
  readonly truncated: string;
  /** Cannot be a client on the public internet: private, loopback, link-local, carrier NAT. */
  readonly isPrivate: boolean;
}

/** Longest text worth looking at: a full IPv6 address and a zone. */
const MAX_TEXT_LENGTH = 64;

export function parseAddress(raw: string): Address | null {
  if (raw.length === 0 || raw.length > MAX_TEXT_LENGTH) return null;
  if (isIPv4(raw)) return fromV4(raw.split('.').map(Number));
  const zone = raw.indexOf('%');
  const text = zone < 0 ? raw : raw.slice(0, zone);
  return isIPv6(text) ? fromV6(groupsOf(text)) : null;
}

/** Takes the port off `ip:port` and `[v6]:port`; other text stays as it is. */
export function withoutPort(raw: string): string {
  if (raw.startsWith('[')) {
    const close = raw.indexOf(']');
    return close < 0 ? raw : raw.slice(1, close);
  }
  const colon = raw.indexOf(':');
  return colon > 0 && colon === raw.lastIndexOf(':') ? raw.slice(0, colon) : raw;
}

function fromV4(bytes: number[]): Address {
  return {
    text: bytes.join('.'),
    truncated: `${bytes[0]}.${bytes[1]}.${bytes[2]}.0`,
    isPrivate: isPrivateV4(bytes[0]!, bytes[1]!),
  };
}

function isPrivateV4(a: number, b: number): boolean {
  return (
    a === 0 ||
    a === 10 ||
    a === 127 ||
    (a === 169 && b === 254) ||
    (a === 172 && b >= 16 && b <= 31) ||
    (a === 192 && b === 168) ||
    (a === 100 && b >= 64 && b <= 127)
  );
}

function fromV6(groups: number[]): Address {
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (mapped) {
    const [high, low] = [groups[6]!, groups[7]!];
    return fromV4([high >> 8, high & 255, low >> 8, low & 255]);
  }
  return {
    text: formatV6(groups),
    truncated: formatV6(groups.map((group, index) => (index < 3 ? group : 0))),
    isPrivate: isPrivateV6(groups),
  };
}

function isPrivateV6(groups: number[]): boolean {
  const first = groups[0]!;
  const unspecifiedOrLoopback = groups.slice(0, 7).every((group) => group === 0) && groups[7]! <= 1;
  return unspecifiedOrLoopback || (first & 0xfe00) === 0xfc00 || (first & 0xffc0) === 0xfe80;
}

/** The eight groups of a valid IPv6 address. */
function groupsOf(text: string): number[] {
  const [left, right] = text.split('::');
  const head = halfGroups(left!);
  if (right === undefined) return head;
  const tail = halfGroups(right);
  return [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail];
}

function halfGroups(half: string): number[] {
  if (half === '') return [];
  return half.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)];
    const [a, b, c, d] = group.split('.').map(Number) as [number, number, number, number];
    return [(a << 8) | b, (c << 8) | d];
  });
}

/** RFC 5952: lower case, no leading zeros, the first longest run of two or more zeros as `::`. */
function formatV6(groups: number[]): string {
  let runStart = -1;
  let runLength = 1;
  for (let at = 0; at < 8; at++) {
    let end = at;
    while (end < 8 && groups[end] === 0) end++;
    if (end - at > runLength) {
      runStart = at;
      runLength = end - at;
    }
    if (end > at) at = end;
  }
  const hex = (part: number[]): string => part.map((group) => group.toString(16)).join(':');
  if (runStart < 0) return hex(groups);
  return `${hex(groups.slice(0, runStart))}::${hex(groups.slice(runStart + runLength))}`;
}
