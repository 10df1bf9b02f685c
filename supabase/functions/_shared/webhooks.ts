/** Signatures of webhooks, those that arrive and those that are sent. */

export async function hmac(key: Uint8Array<ArrayBuffer>, ...parts: Uint8Array<ArrayBuffer>[]): Promise<Uint8Array> {
  const how = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, how, false, ["sign"]);
  const whole = await new Blob(parts).arrayBuffer();
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, whole));
}

/** A secret of Standard Webhooks is base64 after its mark; any other text is taken as it is. */
function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  if (!secret.startsWith("whsec_")) return new TextEncoder().encode(secret);
  try {
    return Uint8Array.fromBase64(secret.slice("whsec_".length));
  } catch {
    return new TextEncoder().encode(secret);
  }
}

/** A signature as Standard Webhooks has it: HMAC-SHA-256 over id, time and body. */
export async function signatureOf(
  secret: string,
  id: string,
  at: number | string,
  body: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const signed = await hmac(keyOf(secret), new TextEncoder().encode(`${id}.${at}.`), body);
  return `v1,${signed.toBase64()}`;
}
