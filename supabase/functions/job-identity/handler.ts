/**
 * Runyard as an OIDC issuer. The attempt that holds a job's lease gets a token for each of its identities; the database
 * checks the lease with the runner's own token and writes the claims, this function signs them. Its keys also sign the
 * records of changes.
 */

import { z } from "zod";
import { asCaller } from "../_shared/calling.ts";
import { limit } from "../_shared/database.ts";
import { publicUrl, read } from "../_shared/env.ts";
import { addressOf, has, jobAttempt, json, parse, readBody, serveWith } from "../_shared/http.ts";
import { ALGORITHM, publicKeys, signClaims } from "./keys.ts";
import { signRecords } from "./records.ts";

/** Clocks differ; a cloud whose clock is behind must not refuse a token that is new. */
const SKEW_SECONDS = 30;
const DOCUMENTS = { "cache-control": "public, max-age=300", "access-control-allow-origin": "*" };
const STANDARD_CLAIMS = ["iss", "aud", "sub", "iat", "nbf", "exp", "jti"];

const WAKES_PER_ADDRESS = 240;

const signRequest = z.strictObject({ sign: z.literal(true) });
const tokenRequest = z.strictObject({ job: jobAttempt });

type Identity = { name: string; kind: string; audience: string; settings: Record<string, string> };

type Given = { phase: string; seconds: number; claims: Record<string, unknown>; identities: Identity[] };

/** The address that clouds know the installation by; it need not be the project's own. */
function issuer(): string {
  const own = `${publicUrl()}/functions/v1/job-identity`;
  return (read("RUNYARD_IDENTITY_ISSUER") ?? own).replace(/\/+$/, "");
}

function discovery(): Response {
  return json(200, {
    issuer: issuer(),
    jwks_uri: `${issuer()}/.well-known/jwks`,
    response_types_supported: ["id_token"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: [ALGORITHM],
    scopes_supported: ["openid"],
    claims_supported: STANDARD_CLAIMS,
  }, DOCUMENTS);
}

async function keySet(isForRecords: boolean): Promise<Response> {
  return json(200, { keys: await publicKeys(isForRecords) }, DOCUMENTS);
}

async function sign(given: Given, identity: Identity): Promise<Record<string, unknown>> {
  const now = Math.floor(Date.now() / 1000);
  const token = await signClaims({
    ...given.claims,
    iss: issuer(),
    aud: identity.audience,
    iat: now,
    nbf: now - SKEW_SECONDS,
    exp: now + given.seconds,
    jti: crypto.randomUUID(),
  });
  return { ...identity, token };
}

const issue = serveWith(async (request) => {
  const body = await readBody(request);
  if (has(body, "sign")) {
    parse(signRequest, body);
    // Anybody may wake it: it signs what waits, once, and reveals nothing about it.
    await limit([[`records:wake:${addressOf(request)}`, WAKES_PER_ADDRESS]]);
    await signRecords();
    return json(200, {});
  }
  const { job } = parse(tokenRequest, body);
  const args = { p_job: job.id, p_attempt: job.attempt };
  const given = await asCaller<Given>(request, "worker_identities", args);
  const tokens = await Promise.all(given.identities.map((identity) => sign(given, identity)));
  return json(200, { phase: given.phase, expires_in: given.seconds, tokens });
});

export const handler = async (request: Request): Promise<Response> => {
  const path = new URL(request.url).pathname;
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (isRead && path.endsWith("/.well-known/openid-configuration")) return discovery();
  const isForRecords = path.endsWith("/.well-known/record-keys");
  if (!isRead || !isForRecords && !path.endsWith("/.well-known/jwks")) return await issue(request);
  return await serveWith(() => keySet(isForRecords), null)(request);
};
