/** Personal tokens, exchanged for tokens that act as their owners. */

import { attempt } from "./attempts.ts";
import { digest } from "./codes.ts";
import { call } from "./database.ts";
import { addressOf, Answer, seenAddress } from "./http.ts";
import { signPersonal } from "./tokens.ts";

const PER_ADDRESS = 240;
export const PERSONAL_TOKEN = /^ryp_[A-Za-z0-9]{43}$/;

type Owner = { id: string; user_id: string; email: string };

/** Exchanges a person's own token; one answer for all that is wrong with it. */
export async function personOf(http: Request, secret: string): Promise<{ access_token: string; email: string }> {
  const hash = await digest(secret);
  // By the token, not by its kind: colleagues behind one address do not use up each other's attempts.
  const about = { kind: "account", name: hash.slice(0, 16), secret, address: addressOf(http) } as const;
  const owner = await attempt({ ...about, perAddress: PER_ADDRESS }, async () => {
    return await call<Owner | null>("use_personal_token", { p_token_hash: hash }) ?? undefined;
  });
  if (!owner) {
    throw new Answer(401, {
      code: "RY401",
      error: "invalid_grant",
      message: "The personal token is not known, was revoked, or has expired.",
      hint: "Create a new one under Account.",
    });
  }
  const { id, user_id, email } = owner;
  return { access_token: await signPersonal(id, user_id, email, seenAddress(http)), email };
}
