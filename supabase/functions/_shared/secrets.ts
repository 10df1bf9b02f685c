/** Comparing secrets in a time that reveals nothing about them. */

import { timingSafeEqual } from "node:crypto";
import { digest } from "./codes.ts";
import { read } from "./env.ts";
import { compare } from "./hashing.ts";
import { Answer, bearerOf } from "./http.ts";

/** A hash of nothing that anybody knows, to burn the same time for ids that do not exist. */
const DUMMY = "$2b$10$Lo1uAduIqANPfILGxbL4huZMzzaCNGRzWyzflSiagvXdJomrL7fEC";
const LIVE_HASHES = 2;
const BCRYPT_MAX_BYTES = 72;
const MOST_VERDICTS = 10_000;
/** A hash is written by the person who registers a runner: each step of its cost doubles what a stranger can order. */
const AFFORDABLE = /^\$2[aby]\$(08|09|10|11|12)\$/;

export type StoredHash = { token_id: string; hash: string };

/** Whose secret it claims to be, and the organisation whose turn its comparison uses. */
export type Claimed = { name: string; owner: string };

/** Token ids by digest of name, secret and hashes: repeating a secret, right or wrong, costs one comparison. */
const verdicts = new Map<string, string | undefined>();

/** Finds the stored hash that a secret belongs to. */
export async function findMatch(
  secret: string,
  stored: StoredHash[],
  { name, owner }: Claimed,
): Promise<StoredHash | undefined> {
  const mark = await digest(JSON.stringify([name, secret, stored]));
  if (!verdicts.has(mark)) {
    verdicts.set(mark, (await compareAll(secret, stored, owner))?.token_id);
    if (verdicts.size > MOST_VERDICTS) verdicts.delete(verdicts.keys().next().value!);
  }
  return stored.find((each) => each.token_id === verdicts.get(mark));
}

/** Always LIVE_HASHES comparisons: a wrong secret, an unknown id and an id without hashes take alike. */
async function compareAll(secret: string, stored: StoredHash[], owner: string): Promise<StoredHash | undefined> {
  const isUsable = new TextEncoder().encode(secret).byteLength <= BCRYPT_MAX_BYTES;
  let found: StoredHash | undefined;
  for (let at = 0; at < Math.max(LIVE_HASHES, stored.length); at++) {
    const candidate = AFFORDABLE.test(stored[at]?.hash) ? stored[at] : undefined;
    const isSame = await compare(isUsable ? secret : "", candidate?.hash ?? DUMMY, owner);
    if (isSame && isUsable && candidate) found ??= candidate;
  }
  return found;
}

/** Compares two texts without telling by time how far they agree. */
export async function isEqual(left: string, right: string): Promise<boolean> {
  const [a, b] = [await digest(left), await digest(right)].map((each) => Uint8Array.fromHex(each));
  return timingSafeEqual(a, b);
}

/** Refuses a request without the credential that the installation set under this name; every one where it set none. */
export async function needCredential(request: Request, name: string, what: string): Promise<void> {
  const wanted = read(name);
  if (wanted !== undefined && await isEqual(bearerOf(request) ?? "", wanted)) return;
  throw new Answer(401, { code: "RY401", message: `The ${what} credential is not valid.` });
}
