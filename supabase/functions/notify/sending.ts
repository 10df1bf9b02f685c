/** Sends one message, in bounded time, to an address that is outside, and follows no redirect. */

import type { Target } from "../_shared/addresses.ts";
import { read } from "../_shared/env.ts";
import { signatureOf } from "../_shared/webhooks.ts";
import { mailText, type Message, payloadOf } from "./messages.ts";
import { checkReceiver, type Outcome, sendInTime, words } from "./receivers.ts";
import { report } from "./reports.ts";
import { open } from "../_shared/sealing.ts";

const MAIL_API = "https://api.resend.com/emails";

async function headersOf(message: Message, body: string): Promise<Record<string, string>> {
  const timestamp = Math.floor(Date.now() / 1000);
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": "Runyard",
    "webhook-id": message.event_id,
    "webhook-timestamp": String(timestamp),
  };
  if (message.secret === null) return headers;
  const secret = await open(message.org, message.secret);
  const bytes = new TextEncoder().encode(body);
  const signature = await signatureOf(secret, message.event_id, timestamp, bytes);
  return { ...headers, "webhook-signature": signature };
}

async function post(target: Target, headers: Record<string, string>, body: string): Promise<Outcome> {
  const response = await sendInTime(target, { method: "POST", headers, body });
  await response.body?.cancel();
  const { status } = response;
  if (response.ok) return { status: "DELIVERED", http_status: status, note: String(status) };
  const isRedirect = status >= 300 && status < 400;
  const note = isRedirect ? `${status}: the receiver redirects, and redirects are not followed` : `${status}`;
  return { status: "FAILED", http_status: status, note };
}

/** By a mail service's API, where the installation has one; otherwise it stays in the outbox. */
async function mail(message: Message, address: string): Promise<Outcome> {
  const key = read("MAIL_API_KEY");
  const from = read("MAIL_FROM");
  if (!key || !from) return { status: "KEPT", note: "not sent: no mail service is configured" };
  const text = mailText(message);
  const headers = {
    "authorization": `Bearer ${key}`,
    "content-type": "application/json",
    "idempotency-key": `${message.id}-${message.event_id}`,
  };
  const body = JSON.stringify({ from, to: [address], subject: message.title, text });
  return await post({ url: new URL(read("MAIL_API_URL") ?? MAIL_API) }, headers, body);
}

async function attempt(message: Message): Promise<Outcome> {
  if (message.channel === "git") {
    return await report(message, await open(message.org, message.secret ?? ""));
  }
  const address = await open(message.org, message.address);
  if (message.channel === "mail") return await mail(message, address);
  const body = payloadOf(message);
  return await post(await checkReceiver(address), await headersOf(message, body), body);
}

/** Sends a message and returns the result, never by an exception. */
export async function send(message: Message): Promise<Outcome & { took_ms: number }> {
  const began = performance.now();
  const result = await attempt(message)
    .catch((error): Outcome => ({ status: "FAILED", note: words(error) }));
  return { ...result, took_ms: Math.round(performance.now() - began) };
}
