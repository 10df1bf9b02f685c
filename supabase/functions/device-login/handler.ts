/**
 * Signs a program in without a password (RFC 8628): it gets a code to show, somebody confirms the code
 * on the dashboard's page, and the next time the program asks it gets a login of theirs from Auth.
 */

import * as jose from "jose";
import { z } from "zod";
import { digest, drawCode, drawSecret, shownCode } from "../_shared/codes.ts";
import { call, limit } from "../_shared/database.ts";
import { dashboardUrl } from "../_shared/env.ts";
import { addressOf, Answer, has, json, parse, readBody, seenAddress, serveWith } from "../_shared/http.ts";
import { sessionOf } from "../_shared/logins.ts";

const DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code";
const STARTS_PER_ADDRESS = 30;
const POLLS_PER_MINUTE = 90;
const POLLS_PER_ADDRESS = 900;
const INTERVAL_SECONDS = 2;

const start = z.strictObject({ program: z.string().min(1).max(200) });
const poll = z.strictObject({ grant_type: z.literal(DEVICE_CODE), device_code: z.string().min(20).max(200) });

async function begin(request: Request, program: string): Promise<Response> {
  const address = addressOf(request);
  await limit([[`device:start:${address}`, STARTS_PER_ADDRESS]]);
  const device = drawSecret();
  const code = drawCode();
  const { expires_in } = await call<{ expires_in: number }>("start_device_login", {
    p_device_hash: await digest(device),
    p_user_code: code,
    p_program: program,
    p_address: address,
  });
  const shown = shownCode(code);
  const page = dashboardUrl();
  return json(200, {
    device_code: device,
    user_code: shown,
    verification_uri: page && `${page}/device`,
    verification_uri_complete: page && `${page}/device?code=${shown}`,
    expires_in,
    interval: INTERVAL_SECONDS,
  });
}

function notYet(error: string, message: string, hint: string): never {
  throw new Answer(400, { code: "RY403", error, message, hint });
}

const AGAIN = "Start `runyard login` again.";

async function finish(request: Request, device: string): Promise<Response> {
  const hash = await digest(device);
  await limit([
    [`device:poll:${hash}`, POLLS_PER_MINUTE],
    [`device:polls:${addressOf(request)}`, POLLS_PER_ADDRESS],
  ]);
  type Taken = { status: string; user_id?: string; through?: string };
  const taken = await call<Taken>("take_device_login", { p_device_hash: hash });
  if (taken.status === "pending") {
    notYet("authorization_pending", "Nobody has confirmed the code yet.", "Ask again in a moment.");
  }
  if (taken.status === "declined") notYet("access_denied", "The code was declined.", AGAIN);
  if (taken.status === "expired") notYet("expired_token", "The code has expired.", AGAIN);
  const session = await sessionOf(taken.user_id!, seenAddress(request)) as { access_token: string };
  if (taken.through) {
    const { session_id } = jose.decodeJwt(session.access_token);
    await call("note_session_origin", { p_session: session_id, p_provider: taken.through });
  }
  return json(200, session);
}

export const handler = serveWith(async (request) => {
  const body = await readBody(request);
  if (has(body, "grant_type")) return await finish(request, parse(poll, body).device_code);
  return await begin(request, parse(start, body).program);
});
