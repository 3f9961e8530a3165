/**
 * Which network addresses are not public: of this machine, of private networks, of no host at all.
 *
 * A ledger that several people may register webhooks on must not be a way into its own network.
 */
import { BlockList, isIP } from 'node:net';

const V4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const;
const notPublicV4 = new BlockList();
for (const [net, prefix] of V4) notPublicV4.addSubnet(net, prefix, 'ipv4');

/**
 * All that is public in IPv6 lies in 2000::/3. Out of it, ranges that carry an IPv4 address (6to4,
 * Teredo) are left out as well: a router would send them wherever that address is.
 */
const publicV6 = new BlockList();
publicV6.addSubnet('2000::', 3, 'ipv6');
const tunnelV6 = new BlockList();
tunnelV6.addSubnet('2001::', 23, 'ipv6');
tunnelV6.addSubnet('2001:db8::', 32, 'ipv6');
tunnelV6.addSubnet('2002::', 16, 'ipv6');
tunnelV6.addSubnet('3fff::', 20, 'ipv6');

export function isPublicAddress(address: string): boolean {
  const plain = address.replace(/%.*$/, '');
  const family = isIP(plain);
  if (family === 4) return !notPublicV4.check(plain, 'ipv4');
  if (family !== 6) return false;
  return publicV6.check(plain, 'ipv6') && !tunnelV6.check(plain, 'ipv6');
}
