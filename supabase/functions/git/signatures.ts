/** The proof of a delivery's sender: signatures over the raw body, compared in constant time. */

import type { Provider } from "../_shared/git_events.ts";
import { isEqual } from "../_shared/secrets.ts";

const MOST_SKEW_SECONDS = 300;
const encoder = new TextEncoder();

async function hmac(
  key: Uint8Array<ArrayBuffer>,
  ...parts: Uint8Array<ArrayBuffer>[]
): Promise<Uint8Array> {
  const how = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, how, false, ["sign"]);
  const whole = await new Blob(parts).arrayBuffer();
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, whole));
}

/** A secret of Standard Webhooks is base64 after its mark; any other text is taken as it is. */
function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  if (!secret.startsWith("whsec_")) return encoder.encode(secret);
  try {
    return Uint8Array.fromBase64(secret.slice("whsec_".length));
  } catch {
    return encoder.encode(secret);
  }
}

/** The time is signed, too, so an old delivery cannot be sent again by somebody who has read it. */
async function isStandardWebhook(
  headers: Headers,
  secret: string,
  body: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  const [id, at] = [headers.get("webhook-id") ?? "", headers.get("webhook-timestamp") ?? ""];
  if (!id || !/^\d{1,12}$/.test(at)) return false;
  if (Math.abs(Date.now() / 1000 - Number(at)) > MOST_SKEW_SECONDS) return false;
  const right = `v1,${
    (await hmac(keyOf(secret), encoder.encode(`${id}.${at}.`), body)).toBase64()
  }`;
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
