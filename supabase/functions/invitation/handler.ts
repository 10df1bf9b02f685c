/**
 * Shows what an invitation offers to anybody who has its link: they may have no account yet, and no other
 * function of the database answers without one.
 */

import { z } from "zod";
import { call, limit, Refusal } from "../_shared/database.ts";
import { addressOf, Answer, json, parse, readBody, serveWith } from "../_shared/http.ts";

/** In a minute. A dashboard asks for all its visitors from one address. */
const PER_ADDRESS = 240;

const asked = z.strictObject({
  invitation: z.uuid(),
  token_hash: z.string().regex(/^[0-9a-f]{64}$/),
});

async function offerOf(invitation: string, tokenHash: string): Promise<Record<string, unknown>> {
  try {
    return await call("invitation_offer", { p_invitation: invitation, p_token_hash: tokenHash });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Answer(404, { code: error.code, message: error.message, hint: error.hint });
  }
}

export const handler = serveWith(async (request) => {
  const { invitation, token_hash } = parse(asked, await readBody(request));
  await limit([[`invitation:${addressOf(request)}`, PER_ADDRESS]]);
  return json(200, await offerOf(invitation, token_hash));
});
