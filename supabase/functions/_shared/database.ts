/** The database's functions, called as service_role. */

import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { need, secretKey } from "./env.ts";
import { Answer } from "./http.ts";

/** A refusal by the database, with its RYxxx code. */
export class Refusal extends Error {
  constructor(readonly code: string, message: string, readonly hint?: string) {
    super(message);
  }
}

let client: SupabaseClient | undefined;

function connection(): SupabaseClient {
  client ??= createClient(need("SUPABASE_URL"), secretKey(), {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  });
  return client;
}

/** Auth's functions for administrators. */
export const admin = () => connection().auth.admin;

/** Calls a database function; RYxxx errors become a Refusal, all others stay inside. */
export async function call<T>(name: string, args: Record<string, unknown>): Promise<T> {
  const { data, error } = await connection().rpc(name, args);
  if (!error) return data as T;
  if (error.code?.startsWith("RY")) {
    throw new Refusal(error.code, error.message, error.hint || undefined);
  }
  throw new Error(`${name}: ${error.code} ${error.message}`);
}

/** The same for callers that read refusals, each with the status of its code. */
export async function callFor(
  name: string,
  args: Record<string, unknown>,
  statusOf: (code: string) => number,
  more: Record<string, unknown> = {},
): Promise<Record<string, unknown>> {
  try {
    return await call(name, args);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const { code, message, hint } = error;
    throw new Answer(statusOf(code), { code, ...more, message, hint });
  }
}

/** Counts a request against limits and answers 429 when one is used up. */
export async function limit(keys: [key: string, limit: number][], seconds = 60): Promise<void> {
  const args = keys.map(([key, max]) => ({ p_key: key, p_limit: max, p_window_seconds: seconds }));
  const allowed = await Promise.all(args.map((each) => call<boolean>("rate_limit", each)));
  if (allowed.every((each) => each)) return;
  throw new Answer(
    429,
    { code: "RY429", message: "Too many attempts.", hint: `Try again in ${seconds} seconds.` },
    { "retry-after": String(seconds) },
  );
}

/** One field of the row with these values that was not removed. */
async function field(table: string, name: string, end: string, row: Record<string, string>) {
  const { data, error } = await connection().from(table).select(name).match(row).is(end, null)
    .maybeSingle<Record<string, string | null>>();
  if (error) throw new Error(`${table}: ${error.code} ${error.message}`);
  return data?.[name] ?? undefined;
}

/** Finds a service account's client id by its organisation and path, as `group/name`. */
export function clientIdAt(org_id: string, path: string): Promise<string | undefined> {
  const parts = path.split("/");
  const row = { org_id, name: parts.at(-1) ?? "", path: parts.slice(0, -1).join("/") };
  return field("service_accounts", "client_id", "removed_at", row);
}

/** Finds the organisation that a runner belongs to; a shared one belongs to none. */
export const organizationOf = (worker: string) => field("workers", "org_id", "removed_at", { id: worker });

/** Finds an organisation by its short name. */
export const organizationAt = (slug: string) => field("organizations", "id", "deleted_at", { slug });
