/**
 * Limits on attempts to guess a secret. Counted per caller, never per name alone: anyone who knows a runner's id or a
 * client id can use up their own attempts, not its owner's.
 */

import { digest } from "./codes.ts";
import { limit } from "./database.ts";

const MOST_PROVEN = 10_000;
const PROVEN_PER_MINUTE = 60;
const UNPROVEN_PER_MINUTE = 60;

/** Digests of what was right before, so that failures behind the same address do not count for it. */
const proven = new Set<string>();

export interface Attempt {
  kind: "session" | "account";
  name: string;
  secret: string;
  address: string;
  perAddress: number;
}

/** Tries a secret within the caller's limits, and remembers whether it was right. */
export async function attempt<T>(
  about: Attempt,
  prove: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const { kind, name, secret, address, perAddress } = about;
  const mark = await digest(JSON.stringify([kind, name, secret]));
  if (proven.has(mark)) {
    await limit([[`${kind}:proven:${name}:${address}`, PROVEN_PER_MINUTE]]);
  } else {
    await limit([
      [`${kind}:address:${address}`, perAddress],
      [`${kind}:unproven:${name}:${address}`, UNPROVEN_PER_MINUTE],
    ]);
  }
  const found = await prove();
  if (found === undefined) proven.delete(mark);
  else remember(mark);
  return found;
}

function remember(mark: string): void {
  proven.add(mark);
  if (proven.size > MOST_PROVEN) proven.delete(proven.values().next().value!);
}
