/** The database's functions, called with the caller's own token: the database decides, not the edge function. */

import { need, publishableKey } from "./env.ts";
import { Answer, bearerOf } from "./http.ts";

export type Said = Record<string, unknown> | undefined;

/** Calls a database function with the caller's token; silence and anything but JSON count as no answer. */
export async function callAs(
  token: string,
  name: string,
  args: Record<string, unknown>,
): Promise<{ status: number; said: Said }> {
  const headers = {
    apikey: publishableKey(),
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
  };
  const url = `${need("SUPABASE_URL")}/rest/v1/rpc/${name}`;
  try {
    const body = JSON.stringify(args);
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual" });
    const said = await response.json().catch(() => undefined);
    return { status: response.status, said };
  } catch (error) {
    console.error(`${name}: ${error instanceof Error ? error.message : error}`);
    return { status: 503, said: undefined };
  }
}

/** Calls a database function as the caller of this one, who reads its refusals. */
export async function asCaller<T>(request: Request, name: string, args: Record<string, unknown>): Promise<T> {
  const token = bearerOf(request);
  if (!token) throw new Answer(401, { code: "RY401", message: "Sign in first." });
  const { status, said } = await callAs(token, name, args);
  if (status < 300 && said !== undefined) return said as T;
  throw new Answer(status < 400 ? 503 : status, said ?? { code: "RY503", message: "The database does not answer." });
}
