/** `tofu login`: OAuth with PKCE. The dashboard asks the person, the database decides, and the token is a personal one. */

import { z } from "zod";
import { call, limit, Refusal } from "../_shared/database.ts";
import { dashboardUrl } from "../_shared/env.ts";
import { addressOf, json, parse, readBody } from "../_shared/http.ts";
import { digest, drawCode, drawSecret, shownCode } from "../_shared/codes.ts";
import { refuse } from "./documents.ts";

const PER_ADDRESS = 30;
const CLIENT = "terraform-cli";

export const loginService = (base: string) => ({
  client: CLIENT,
  grant_types: ["authz_code"],
  authz: `${base}/oauth/authorize`,
  token: `${base}/oauth/token`,
  ports: [10000, 10010],
});

const asked = z.object({
  client_id: z.literal(CLIENT),
  response_type: z.literal("code"),
  code_challenge_method: z.literal("S256"),
  code_challenge: z.string(),
  redirect_uri: z.string(),
  state: z.string().default(""),
});

/** Sends the browser to the page on which somebody confirms programs. */
export async function authorize(http: Request): Promise<Response> {
  const address = addressOf(http);
  await limit([[`device:start:${address}`, PER_ADDRESS]]);
  const query = parse(asked, Object.fromEntries(new URL(http.url).searchParams));
  const page = dashboardUrl();
  if (page === undefined) refuse(503, "The dashboard's address is not known here.", "Set RUNYARD_DASHBOARD_URL.");
  const code = drawCode();
  await call("start_device_login", {
    p_device_hash: await digest(drawSecret()),
    p_user_code: code,
    p_program: "tofu login",
    p_address: address,
    p_callback: { redirect_uri: query.redirect_uri, challenge: query.code_challenge, state: query.state },
  }).catch((error) => {
    if (error instanceof Refusal) refuse(400, error.message, error.hint);
    throw error;
  });
  const headers = { location: `${page}/device?code=${shownCode(code)}`, "cache-control": "no-store" };
  return new Response(null, { status: 302, headers });
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Draws a personal token, each character with the same chance. */
function drawToken(): string {
  let token = "ryp_";
  while (token.length < 47) {
    const [byte] = crypto.getRandomValues(new Uint8Array(1));
    if (byte < 248) token += ALPHABET[byte % ALPHABET.length];
  }
  return token;
}

const exchanged = z.object({
  grant_type: z.literal("authorization_code"),
  code: z.string().min(1).max(200),
  code_verifier: z.string().min(43).max(128),
  redirect_uri: z.string().max(200),
});

/** Gives a personal token for the code, if the program is the one that began. */
export async function token(http: Request): Promise<Response> {
  await limit([[`device:polls:${addressOf(http)}`, PER_ADDRESS]]);
  const body = parse(exchanged, await readBody(http));
  const challenge = await digest(body.code_verifier);
  const access_token = drawToken();
  const made = await call("take_terminal_login", {
    p_code_hash: await digest(body.code),
    p_redirect_uri: body.redirect_uri,
    p_challenge: Uint8Array.fromHex(challenge).toBase64({ alphabet: "base64url", omitPadding: true }),
    p_token_hash: await digest(access_token),
    p_hint: access_token.slice(-4),
  });
  if (!made) {
    const error_description = "The code is not known, was used, or is not this program's. Run tofu login again.";
    return json(400, { error: "invalid_grant", error_description });
  }
  return json(200, { access_token, token_type: "bearer" });
}
