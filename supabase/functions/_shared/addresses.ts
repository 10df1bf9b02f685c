/** Which addresses an issuer or a receiver may have: an organisation's admin writes them, and they must not lead inside. */

import { read } from "./env.ts";

const INSIDE = /(^|\.)(localhost|local|internal|intranet|lan|home|corp|private|arpa)$/;
const IPV4 = /^\d+(\.\d+){3}$/;
/** [first address, bits of the prefix] of what is not the public internet. */
const CLOSED: [string, number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
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
  return CLOSED.every(([first, bits]) =>
    number >>> (32 - bits) !== numberOf(first) >>> (32 - bits)
  );
}

type Resolve = (name: string, kind: "A" | "AAAA") => Promise<string[]>;

async function addressesOf(name: string, resolve: Resolve): Promise<string[]> {
  const found = await Promise.allSettled([resolve(name, "A"), resolve(name, "AAAA")]);
  return found.flatMap((each) => each.status === "fulfilled" ? each.value : []);
}

/** Hosted functions may not be able to ask; they run in nobody's network but Supabase's. */
const resolver: Resolve | undefined = typeof Deno.resolveDns === "function"
  ? Deno.resolveDns
  : undefined;

/** Tells whether the installation's operator named this host: theirs may be inside their own network. */
function isNamed(url: URL): boolean {
  const named = (read("RUNYARD_ISSUER_HOSTS") ?? "").split(",").map((host) => host.trim());
  return named.includes(url.host) || named.includes(url.hostname);
}

/** What an address is of, and the variable that lets it be inside, for tests and closed networks. */
interface Kind {
  name: string;
  allowed: string;
}
const ISSUER: Kind = { name: "an issuer", allowed: "RUNYARD_ALLOW_PRIVATE_ISSUERS" };
export const RECEIVER: Kind = { name: "a receiver", allowed: "RUNYARD_ALLOW_PRIVATE_RECEIVERS" };

/** Refuses an address inside our own network, by its name and by what the name resolves to. */
export async function checkAddress(
  text: string,
  resolve = resolver,
  kind: Kind = ISSUER,
): Promise<URL> {
  const url = new URL(text);
  if (read(kind.allowed) === "true" || kind === ISSUER && isNamed(url)) return url;
  const name = url.hostname.toLowerCase().replace(/\.+$/, "");
  const isName = name.includes(".") && !INSIDE.test(name) && !IPV4.test(name);
  if (url.protocol !== "https:" || !(isName || isPublicIp(name))) {
    throw new Error(`${kind.name} must be a public https address`);
  }
  // A name that resolves to nothing here cannot be reached, or only by a proxy, which then decides.
  if (isName && resolve !== undefined && !(await addressesOf(name, resolve)).every(isPublicIp)) {
    throw new Error(`${kind.name}'s name must resolve to public addresses`);
  }
  return url;
}
