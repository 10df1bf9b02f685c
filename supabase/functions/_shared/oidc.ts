/** Trust in another identity provider: issuer, audience, claims and algorithms are pinned. */

import * as jose from "jose";
import { read } from "./env.ts";

export interface Trust {
  issuer: string;
  audience: string;
  bound_claims: Record<string, unknown>;
}

/** Public-key algorithms only: with HS256 a public key could be used as the secret. */
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "ES256", "ES384", "EdDSA"];
const TIMEOUT_MILLISECONDS = 5000;
const MAX_DOCUMENT_BYTES = 256 * 1024;
const CACHE_MILLISECONDS = 10 * 60 * 1000;
const MAX_ISSUERS = 100;
const PRIVATE_HOST =
  /^(localhost|.*\.(localhost|local|internal)|\[.*\]|0\..*|127\..*|10\..*|169\.254\..*|192\.168\..*|172\.(1[6-9]|2\d|3[01])\..*)$/i;

interface Known {
  keys: ReturnType<typeof jose.createRemoteJWKSet>;
  until: number;
}
const known = new Map<string, Known>();

/** Refuses an address inside our own network: an issuer is written by an organisation's admin. */
export function checkAddress(text: string): URL {
  const url = new URL(text);
  if (read("RUNYARD_ALLOW_PRIVATE_ISSUERS") === "true") return url;
  if (url.protocol !== "https:" || PRIVATE_HOST.test(url.hostname)) {
    throw new Error("an issuer must be a public https address");
  }
  return url;
}

/** Fetches without following redirects, in bounded time. */
const fetchStrictly: jose.FetchImplementation = (url, options) =>
  fetch(checkAddress(url), {
    ...options as RequestInit,
    redirect: "error",
    signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS),
  });

async function discover(issuer: string): Promise<Known> {
  const address = `${issuer.replace(/\/+$/, "")}/.well-known/openid-configuration`;
  const response = await fetch(checkAddress(address), {
    redirect: "error",
    signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS),
  });
  const text = await response.text();
  if (!response.ok || text.length > MAX_DOCUMENT_BYTES) throw new Error("no discovery document");
  const document = JSON.parse(text) as { issuer?: string; jwks_uri?: string };
  if (document.issuer !== issuer) throw new Error("the document names another issuer");
  const keys = jose.createRemoteJWKSet(checkAddress(document.jwks_uri ?? ""), {
    timeoutDuration: TIMEOUT_MILLISECONDS,
    cooldownDuration: 30_000,
    cacheMaxAge: CACHE_MILLISECONDS,
    [jose.customFetch]: fetchStrictly,
  });
  return { keys, until: Date.now() + CACHE_MILLISECONDS };
}

async function keysOf(issuer: string): Promise<Known["keys"]> {
  const cached = known.get(issuer);
  if (cached && cached.until > Date.now()) return cached.keys;
  const fresh = await discover(issuer);
  if (known.size >= MAX_ISSUERS) known.clear();
  known.set(issuer, fresh);
  return fresh.keys;
}

/** Tells whether a claim has the bound value: equal, one of several, or contained in a list. */
export function isBound(claim: unknown, bound: unknown): boolean {
  const allowed = (Array.isArray(bound) ? bound : [bound]).map(String);
  const actual = Array.isArray(claim) ? claim : [claim];
  return actual.some((value) =>
    ["string", "number", "boolean"].includes(typeof value) && allowed.includes(String(value))
  );
}

/** Verifies an identity token against the trust of a service account; says why it fails. */
export async function verifyIdentity(token: string, trust: Trust): Promise<jose.JWTPayload> {
  const { payload } = await jose.jwtVerify(token, await keysOf(trust.issuer), {
    issuer: trust.issuer,
    audience: trust.audience,
    algorithms: ALGORITHMS,
    clockTolerance: 30,
    requiredClaims: ["exp", "iat"],
    maxTokenAge: "24h",
  });
  for (const [name, bound] of Object.entries(trust.bound_claims)) {
    if (!isBound(payload[name], bound)) throw new Error(`claim ${name} is not the bound value`);
  }
  return payload;
}
