/** The addresses that an issuer or a receiver may have: an organisation's admin writes them, and they must not lead inside. */

import { lookup } from "node:dns/promises";
import { isHosted, read } from "./env.ts";

const INSIDE = /(^|\.)(localhost|localdomain|local|internal|intranet|lan|home|corp|private|arpa|svc|consul)$/;
const IPV4 = /^\d+(\.\d+){3}$/;
/** [first address, bits of the prefix] of what is not the public internet. */
const CLOSED: [string, number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  // Azure's inner services answer here, on every machine.
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
];

function numberOf(address: string): number {
  return address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}

const GLOBAL_IPV6 = /^[23][0-9a-f]{3}:/i;
/** Teredo and 6to4, which wrap an IPv4 address. */
const TUNNEL = /^(2001:0{0,4}:|2002:)/i;

/** Tells whether an address is on the public internet. */
export function isPublicIp(address: string): boolean {
  if (!IPV4.test(address)) return GLOBAL_IPV6.test(address) && !TUNNEL.test(address);
  const number = numberOf(address);
  return CLOSED.every(([first, bits]) => number >>> (32 - bits) !== numberOf(first) >>> (32 - bits));
}

type Resolve = (name: string) => Promise<string[]>;

/** As a connection resolves it, so /etc/hosts counts too. */
const resolver: Resolve = async (name) => {
  const found = await lookup(name, { all: true }).catch(() => []);
  return found.map(({ address }) => address);
};

/** Tells whether the installation's operator named this host: theirs may be inside their own network. */
function isNamed(url: URL): boolean {
  const named = (read("RUNYARD_ISSUER_HOSTS") ?? "").split(",").map((host) => host.trim());
  return named.includes(url.host) || named.includes(url.hostname);
}

/** The owner of an address, and the variable that allows addresses inside, for tests and closed networks. */
type Kind = { name: string; allowed: string };
const ISSUER: Kind = { name: "an issuer", allowed: "RUNYARD_ALLOW_PRIVATE_ISSUERS" };
export const RECEIVER: Kind = { name: "a receiver", allowed: "RUNYARD_ALLOW_PRIVATE_RECEIVERS" };

/** A checked address. `ip` is the one to connect to: a moment later the name may resolve to another. */
export type Target = { url: URL; ip?: string };

/** A proxy resolves names and opens the connections. Hosted functions are in no network but Supabase's. */
function isResolvedElsewhere(): boolean {
  return isHosted() || (read("HTTPS_PROXY") ?? read("https_proxy")) !== undefined;
}

/** Refuses an address inside our own network, by its name and by the addresses that the name resolves to. */
export async function checkAddress(text: string, resolve = resolver, kind: Kind = ISSUER): Promise<Target> {
  const url = new URL(text);
  if (read(kind.allowed) === "true" || kind === ISSUER && isNamed(url)) return { url };
  const inside = `the operator can allow addresses inside this network with ${kind.allowed}=true`;
  const name = url.hostname.toLowerCase().replace(/\.+$/, "");
  const isName = name.includes(".") && !INSIDE.test(name) && !IPV4.test(name);
  if (url.protocol !== "https:" || !(isName || isPublicIp(name))) {
    throw new Error(`${kind.name} must be a public https address; ${inside}`);
  }
  if (isResolvedElsewhere()) return { url };
  const found = isName ? await resolve(name) : [name];
  if (found.length === 0) throw new Error(`the host ${name} does not resolve`);
  if (!found.every(isPublicIp)) throw new Error(`the host ${name} resolves to a private address; ${inside}`);
  return { url, ip: found[0] };
}
