/**
 * Shows what an invitation offers to anybody who has its link: they may have no account yet, and no other
 * function of the database answers without one.
 */

import { z } from "zod";
import { callFor, limit } from "../_shared/database.ts";
import { addressOf, json, parse, readBody, serveWith } from "../_shared/http.ts";

/** In a minute. A dashboard asks for all its visitors from one address. */
const PER_ADDRESS = 240;

const asked = z.strictObject({ invitation: z.uuid(), token_hash: z.string().regex(/^[0-9a-f]{64}$/) });

export const handler = serveWith(async (request) => {
  const { invitation, token_hash } = parse(asked, await readBody(request));
  await limit([[`invitation:${addressOf(request)}`, PER_ADDRESS]]);
  const args = { p_invitation: invitation, p_token_hash: token_hash };
  return json(200, await callFor("invitation_offer", args, () => 404));
});
