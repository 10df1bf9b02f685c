/** The proof of a delivery's sender: signatures over the raw body, compared in constant time. */

import type { Provider } from "../_shared/git_events.ts";
import { isEqual } from "../_shared/secrets.ts";
import { hmac, signatureOf } from "../_shared/webhooks.ts";

const MOST_SKEW_SECONDS = 300;
const encoder = new TextEncoder();

/** The time is signed, too, so an old delivery cannot be sent again by somebody who has read it. */
async function isStandardWebhook(headers: Headers, secret: string, body: Uint8Array<ArrayBuffer>): Promise<boolean> {
  const [id, at] = [headers.get("webhook-id") ?? "", headers.get("webhook-timestamp") ?? ""];
  if (!id || !/^\d{1,12}$/.test(at)) return false;
  if (Math.abs(Date.now() / 1000 - Number(at)) > MOST_SKEW_SECONDS) return false;
  const right = await signatureOf(secret, id, at, body);
  let isRight = false;
  for (const each of (headers.get("webhook-signature") ?? "").split(" ").slice(0, 10)) {
    if (await isEqual(each, right)) isRight = true;
  }
  return isRight;
}

/** Tells whether a delivery carries what its provider signs with the connection's secret. */
export async function isSigned(
  provider: Provider,
  headers: Headers,
  secret: string,
  body: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  switch (provider) {
    case "github": {
      const right = `sha256=${(await hmac(encoder.encode(secret), body)).toHex()}`;
      return await isEqual(headers.get("x-hub-signature-256") ?? "", right);
    }
    case "gitea": {
      // Forgejo sends both names; where its own is present, only that one counts.
      const sent = headers.get("x-forgejo-signature") ?? headers.get("x-gitea-signature") ?? "";
      return await isEqual(sent, (await hmac(encoder.encode(secret), body)).toHex());
    }
    case "gitlab":
      return headers.has("webhook-signature")
        ? await isStandardWebhook(headers, secret, body)
        : await isEqual(headers.get("x-gitlab-token") ?? "", secret);
    case "generic":
      return await isStandardWebhook(headers, secret, body);
  }
}
