/**
 * IP addresses as the egress rules see them. An IPv6 address may carry an IPv4 address inside (mapped, compatible,
 * translated, 6to4, Teredo), and a packet sent to it can arrive there, so the inner address is judged as well.
 */
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';

/** Ranges no policy but `open` lets through: link-local addresses and the metadata services of clouds. */
export const metadataRanges = ['169.254.0.0/16', 'fe80::/10', 'fd00:ec2::254', '100.100.100.200', '168.63.129.16'];

/** Ranges that are not the public internet: loopback, private, shared, multicast, reserved and unspecified. */
export const localRanges = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '172.16.0.0/12', '192.0.0.0/24', '192.0.2.0/24'],
  ...['192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4'],
  ...['240.0.0.0/4', '::/128', '::1/128', '100::/64', '2001:db8::/32', 'fc00::/7', 'fec0::/10', 'ff00::/8'],
];

/** A list of addresses and CIDR ranges. Throws RangeError for an entry that is neither. */
export function rangeList(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    const family = isIPv4(address) ? 'ipv4' : isIPv6(address) ? 'ipv6' : undefined;
    if (family === undefined) throw new RangeError(`'${range}' is not an address range`);
    if (bits === undefined) list.addAddress(address, family);
    else if (/^\d{1,3}$/.test(bits)) list.addSubnet(address, Number(bits), family);
    else throw new RangeError(`'${range}' is not an address range`);
  }
  return list;
}

/** True when the address, or an IPv4 address inside it, is on the list. */
export function listed(list: BlockList, address: string): boolean {
  return [address, ...innerAddresses(address)].some((each) => list.check(each, isIPv4(each) ? 'ipv4' : 'ipv6'));
}

/** The IPv4 addresses an IPv6 address may stand for. */
export function innerAddresses(address: string): string[] {
  if (isIP(address) !== 6) return [];
  const groups = groupsOf(address);
  const pair = (index: number, turned = 0) => {
    const [high = 0, low = 0] = groups.slice(index, index + 2).map((group) => group ^ turned);
    return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
  };
  const zero = (from: number, to: number) => groups.slice(from, to).every((group) => group === 0);
  const inner: string[] = [];
  if (zero(0, 6) || (zero(0, 5) && groups[5] === 0xffff)) inner.push(pair(6));
  if (zero(0, 4) && groups[4] === 0xffff && groups[5] === 0) inner.push(pair(6));
  if (groups[0] === 0x64 && groups[1] === 0xff9b) inner.push(pair(6));
  if (groups[0] === 0x2002) inner.push(pair(1));
  // Teredo (RFC 4380): the server's address, and the client's with every bit turned.
  if (groups[0] === 0x2001 && groups[1] === 0) inner.push(pair(2), pair(6, 0xffff));
  return inner;
}

/** The eight groups of an IPv6 address; the URL parser brings every spelling into one. */
function groupsOf(address: string): number[] {
  const plain = new URL(`http://[${address.replace(/%.*$/, '')}]`).hostname.slice(1, -1);
  const [head = '', tail] = plain.split('::');
  const read = (part: string) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)));
  if (tail === undefined) return read(head);
  const [front, back] = [read(head), read(tail)];
  return [...front, ...Array<number>(8 - front.length - back.length).fill(0), ...back];
}
