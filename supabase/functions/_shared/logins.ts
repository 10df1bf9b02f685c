/** A login at Auth for somebody who has proved elsewhere who they are. */

import type { User } from "@supabase/supabase-js";
import { admin } from "./database.ts";
import { need, secretKey } from "./env.ts";
import { Answer } from "./http.ts";

function refuse(message: string, hint: string): never {
  throw new Answer(403, { code: "RY403", error: "access_denied", message, hint });
}

const AWAY = {
  code: "RY503",
  error: "temporarily_unavailable",
  message: "Auth does not answer, so nobody can be signed in.",
  hint: "Try again in a moment.",
};

/** Looks a person up; only an answer in Auth's own words means that there is none. */
async function userAt(id: string): Promise<User | null> {
  const { data, error } = await admin().getUserById(id);
  if (error && error.code !== "user_not_found") {
    console.error(`get_user: ${error.status} ${error.message}`);
    throw new Answer(503, AWAY, { "retry-after": "5" });
  }
  return data.user;
}

/**
 * Opens a session of its own for a person: a link that nobody mails, followed at once. Auth takes following a link as
 * proof of the address: therefore only for one that is proved already. Auth keeps where a session was opened, and believes
 * who has the secret key that it was opened for somebody elsewhere.
 */
export async function sessionOf(userId: string, seenAt: string): Promise<unknown> {
  const user = await userAt(userId);
  if (!user?.email) refuse("That account no longer exists.", "Sign in with another one.");
  if (!user.email_confirmed_at) {
    refuse("That account's email address is not confirmed.", "Confirm it, then sign in again.");
  }
  const link = await admin().generateLink({ type: "recovery", email: user.email });
  if (link.error) throw new Error(`generate_link: ${link.error.message}`);
  const response = await fetch(`${need("SUPABASE_URL")}/auth/v1/verify`, {
    method: "POST",
    headers: {
      apikey: secretKey(),
      "content-type": "application/json",
      ...(seenAt ? { "sb-forwarded-for": seenAt } : {}),
    },
    body: JSON.stringify({ type: "recovery", token_hash: link.data.properties.hashed_token }),
    redirect: "manual",
  });
  if (!response.ok) throw new Error(`verify: ${response.status} ${await response.text()}`);
  return await response.json();
}
