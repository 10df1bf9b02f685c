/** Notifications: delivers what is due, seals addresses for rules, and wakes the function that signs records. */

import { z } from "zod";
import { callAs } from "../_shared/calling.ts";
import { call, limit } from "../_shared/database.ts";
import { need, publishableKey } from "../_shared/env.ts";
import { addressOf, Answer, bearerOf, has, json, parse, readBody, serveWith } from "../_shared/http.ts";
import type { Message } from "./messages.ts";
import { seal } from "../_shared/sealing.ts";
import { checkReceiver } from "./receivers.ts";
import { send } from "./sending.ts";

const BATCH = 20;
/** A hosted function may run for longer; what is left is due for the next call. */
const BUDGET_MILLISECONDS = 40_000;
/** A provider gets one report a second, so the comment of a plan is due a moment after its status. */
const PAUSE_MILLISECONDS = 1_100;
const SEALS_PER_ADDRESS = 30;
const WAKES_PER_ADDRESS = 240;
const MAIL = /^[^@\s]+@[^@\s]+\.[^@\s]+$/;

const deliverRequest = z.strictObject({ deliver: z.literal(true) });
const sealRequest = z.strictObject({
  org: z.uuid(),
  channel: z.enum(["webhook", "slack", "teams", "mail"]),
  address: z.string().min(1).max(2000).optional(),
  secret: z.string().min(8).max(500).optional(),
});

async function deliverOne(message: Message): Promise<void> {
  const p_result = await send(message);
  await call("finish_delivery", { p_delivery: message.id, p_lease: message.lease, p_result });
}

/** Sends what is due. A message whose end could not be written down is due again when its lease is over. */
async function deliverDue(until: number): Promise<number> {
  let sent = 0;
  while (Date.now() < until) {
    const messages = await call<Message[]>("lease_deliveries", { p_limit: BATCH });
    if (messages.length === 0) break;
    const ends = await Promise.allSettled(messages.map(deliverOne));
    for (const end of ends) if (end.status === "rejected") console.error(String(end.reason));
    sent += messages.length;
  }
  return sent;
}

/** Wakes the function with the keys when records of changes wait; without an answer, the next call tries again. */
async function wakeSigner(): Promise<void> {
  if (!await call<boolean>("has_unsigned_records", {})) return;
  const url = `${need("SUPABASE_URL")}/functions/v1/job-identity`;
  const response = await fetch(url, {
    method: "POST",
    headers: { "apikey": publishableKey(), "content-type": "application/json" },
    body: JSON.stringify({ sign: true }),
  });
  await response.body?.cancel();
}

/** Sends until nothing is due, also after a pause. */
async function deliver(): Promise<void> {
  const until = Date.now() + BUDGET_MILLISECONDS;
  while (await deliverDue(until) > 0 && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MILLISECONDS));
  }
}

type Membership = { id: string; role: string };

/** Only an admin has an address sealed; asked of the database, as the caller. */
async function needAdmin(request: Request, org: string): Promise<void> {
  const { status, said } = await callAs(bearerOf(request) ?? "", "my_organizations", {});
  const mine = status < 300 ? said as unknown as Membership[] : [];
  if (mine.some((each) => each.id === org && ["owner", "admin"].includes(each.role))) return;
  throw new Answer(403, {
    code: "RY403",
    message: "Only admins of the organisation write addresses.",
    hint: "Ask an owner or admin of the organisation.",
  });
}

/** The part of an address that may be shown: all of a mail address, the last four characters of a webhook. */
function hintOf(channel: string, address: string): string {
  return channel === "mail" ? address : `${new URL(address).host} …${address.slice(-4)}`.slice(-100);
}

async function checked(channel: string, address: string): Promise<void> {
  if (channel === "mail") {
    if (!MAIL.test(address)) throw new Error("That is not an email address.");
    return;
  }
  await checkReceiver(address);
}

async function sealAll(request: Request, body: unknown): Promise<Response> {
  const { org, channel, address, secret } = parse(sealRequest, body);
  await limit([[`notify:seal:${addressOf(request)}`, SEALS_PER_ADDRESS]]);
  await needAdmin(request, org);
  if (address !== undefined) {
    await checked(channel, address).catch((error) => {
      const message = error instanceof Error ? error.message : "The address cannot be used.";
      throw new Answer(400, { code: "RY422", message, hint: "Write another address." });
    });
  }
  return json(200, {
    ...(address && { address: await seal(org, address), address_hint: hintOf(channel, address) }),
    ...(secret && { secret: await seal(org, secret) }),
  });
}

export const handler = serveWith(async (request) => {
  const body = await readBody(request);
  if (has(body, "deliver")) {
    parse(deliverRequest, body);
    // Anybody may wake it: it sends what is due, once, no matter who asks, and reveals nothing about it.
    await limit([[`notify:wake:${addressOf(request)}`, WAKES_PER_ADDRESS]]);
    await Promise.all([deliver(), wakeSigner().catch((error) => console.error(String(error)))]);
    return json(200, {});
  }
  return await sealAll(request, body);
});
