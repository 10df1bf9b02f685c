/** Addresses and secrets at rest: AES-256-GCM, with a key that the database never sees, bound to their organisation. */

import { need, read } from "../_shared/env.ts";

const MARK = "s1.";
const NONCE_BYTES = 12;
const encoder = new TextEncoder();
let key: Promise<CryptoKey> | undefined;

/** The chosen key, or one that is derived from the secret that every installation has. */
async function deriveKey(): Promise<CryptoKey> {
  const chosen = read("NOTIFICATIONS_KEY");
  const jwk = chosen ? undefined : JSON.parse(need("WORKER_SIGNING_JWK")) as JsonWebKey;
  const material = chosen ?? jwk?.d ?? jwk?.k;
  if (!material) throw new Error("WORKER_SIGNING_JWK has no private part");
  const raw = encoder.encode(material);
  const base = await crypto.subtle.importKey("raw", raw, "HKDF", false, ["deriveKey"]);
  const info = encoder.encode("notifications");
  const how = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info };
  const kind = { name: "AES-GCM", length: 256 };
  return await crypto.subtle.deriveKey(how, base, kind, false, ["encrypt", "decrypt"]);
}

const sealingKey = () => key ??= deriveKey();

/** Seals a text for one organisation. */
export async function seal(org: string, text: string): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const how = { name: "AES-GCM", iv, additionalData: encoder.encode(org) };
  const body = await crypto.subtle.encrypt(how, await sealingKey(), encoder.encode(text));
  const whole = new Uint8Array([...iv, ...new Uint8Array(body)]);
  return MARK + whole.toBase64({ alphabet: "base64url", omitPadding: true });
}

/** Opens what was sealed for that organisation; anything else is refused. */
export async function open(org: string, sealed: string): Promise<string> {
  const bytes = Uint8Array.fromBase64(sealed.slice(MARK.length), { alphabet: "base64url" });
  const iv = bytes.slice(0, NONCE_BYTES);
  const how = { name: "AES-GCM", iv, additionalData: encoder.encode(org) };
  try {
    const text = await crypto.subtle.decrypt(how, await sealingKey(), bytes.slice(NONCE_BYTES));
    return new TextDecoder().decode(text);
  } catch {
    throw new Error("It was sealed with another key. Replace it.");
  }
}
