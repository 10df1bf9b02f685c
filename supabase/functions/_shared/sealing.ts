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
  const base = await crypto.subtle.importKey("raw", encoder.encode(material), "HKDF", false, [
    "deriveKey",
  ]);
  const how = {
    name: "HKDF",
    hash: "SHA-256",
    salt: new Uint8Array(),
    info: encoder.encode("notifications"),
  };
  return await crypto.subtle.deriveKey(how, base, { name: "AES-GCM", length: 256 }, false, [
    "encrypt",
    "decrypt",
  ]);
}

function sealingKey(): Promise<CryptoKey> {
  key ??= deriveKey();
  return key;
}

function toText(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_")
    .replaceAll("=", "");
}

function toBytes(text: string): Uint8Array<ArrayBuffer> {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (each) => each.charCodeAt(0));
}

/** Seals a text for one organisation. */
export async function seal(org: string, text: string): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const how = { name: "AES-GCM", iv, additionalData: encoder.encode(org) };
  const body = await crypto.subtle.encrypt(how, await sealingKey(), encoder.encode(text));
  return MARK + toText(new Uint8Array([...iv, ...new Uint8Array(body)]));
}

/** Opens what was sealed for that organisation; anything else is refused. */
export async function open(org: string, sealed: string): Promise<string> {
  const bytes = toBytes(sealed.slice(MARK.length));
  const how = {
    name: "AES-GCM",
    iv: bytes.slice(0, NONCE_BYTES),
    additionalData: encoder.encode(org),
  };
  try {
    return new TextDecoder().decode(
      await crypto.subtle.decrypt(how, await sealingKey(), bytes.slice(NONCE_BYTES)),
    );
  } catch {
    throw new Error("It was sealed with another key. Replace it.");
  }
}
