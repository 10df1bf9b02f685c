/**
 * The keys that sign identities of jobs and records of changes, and no other key signs these. A key whose private half
 * was removed signs nothing and is no longer for clouds: it verifies the records that it once signed.
 */

import * as jose from "jose";
import { read } from "../_shared/env.ts";
import { Answer } from "../_shared/http.ts";

export const ALGORITHM = "RS256";
const PUBLIC_PARTS = ["kty", "n", "e"] as const;

/** A key as the cloud reads it, and what signs with it. */
type IdentityKey = { kid: string; open: jose.JWK; whole: jose.JWK };

let keys: Promise<IdentityKey[]> | undefined;

/** Reads one key, a list, or a key set, as the supabase CLI and other tools write them. */
function listed(text: string): jose.JWK[] {
  const found = JSON.parse(text) as jose.JWK | jose.JWK[] | jose.JSONWebKeySet;
  if (Array.isArray(found)) return found;
  return "keys" in found && Array.isArray(found.keys) ? found.keys : [found as jose.JWK];
}

async function readKey(jwk: jose.JWK): Promise<IdentityKey> {
  if (jwk.kty !== "RSA") throw new Error("RUNYARD_IDENTITY_KEYS: clouds accept RSA keys only");
  const parts = Object.fromEntries(PUBLIC_PARTS.map((name) => [name, jwk[name]])) as jose.JWK;
  const kid = jwk.kid ?? await jose.calculateJwkThumbprint(parts);
  const { key_ops: _ops, use: _use, ...whole } = jwk;
  return { kid, open: { ...parts, kid, use: "sig", alg: ALGORITHM }, whole };
}

function identityKeys(): Promise<IdentityKey[]> {
  const text = read("RUNYARD_IDENTITY_KEYS");
  if (text === undefined) {
    throw new Answer(503, {
      code: "RY503",
      message: "This installation issues no identities of jobs.",
      hint: "Set RUNYARD_IDENTITY_KEYS, as docs/identity.md describes.",
    });
  }
  return keys ??= Promise.all(listed(text).map(readKey));
}

/** The keys that sign: while one is replaced, the old and the new one. */
async function signers(): Promise<IdentityKey[]> {
  return (await identityKeys()).filter(({ whole }) => whole.d !== undefined);
}

/** The key set that a cloud reads; for records, with the keys that only verify. */
export async function publicKeys(isForRecords = false): Promise<jose.JWK[]> {
  return (await (isForRecords ? identityKeys() : signers())).map((key) => key.open);
}

/** Signs bytes with the first key, as RS256 does, in base64. */
export async function signBytes(bytes: Uint8Array<ArrayBuffer>): Promise<{ kid: string; signature: string }> {
  const [{ kid, whole }] = await signers();
  const key = await jose.importJWK(whole, ALGORITHM) as CryptoKey;
  const signed = await crypto.subtle.sign("RSASSA-PKCS1-v1_5", key, bytes);
  return { kid, signature: new Uint8Array(signed).toBase64() };
}

/** Signs claims with the first key. */
export async function signClaims(claims: jose.JWTPayload): Promise<string> {
  const [{ kid, whole }] = await signers();
  return await new jose.SignJWT(claims)
    .setProtectedHeader({ alg: ALGORITHM, typ: "JWT", kid })
    .sign(await jose.importJWK(whole, ALGORITHM));
}
