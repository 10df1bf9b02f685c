/** Trust in another identity provider: issuer, audience, claims and algorithms are pinned. */

import * as jose from "jose";
import { checkAddress } from "./addresses.ts";
import { AWS_ISSUER, AWS_PREFIX, verifyAws } from "./aws.ts";
import { ask, ProviderAway } from "./providers.ts";

export interface Trust {
  issuer: string;
  audience: string;
  bound_claims: Record<string, unknown>;
}

/** Public-key algorithms only: with HS256 a public key could be used as the secret. */
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "ES256", "ES384", "EdDSA"];
const MAX_DOCUMENT_BYTES = 256 * 1024;
const CACHE_MILLISECONDS = 10 * 60 * 1000;
const FAILURE_MILLISECONDS = 30 * 1000;
const MAX_ISSUERS = 100;
type Keys = ReturnType<typeof jose.createRemoteJWKSet>;
interface Known {
  keys: Promise<Keys>;
  until: number;
}
const known = new Map<string, Known>();

const fetchStrictly: jose.FetchImplementation = async (url, options) =>
  await ask(await checkAddress(url), options as RequestInit);

async function discover(issuer: string): Promise<Keys> {
  const address = `${issuer.replace(/\/+$/, "")}/.well-known/openid-configuration`;
  const response = await ask(await checkAddress(address));
  const text = await response.text();
  if (!response.ok || text.length > MAX_DOCUMENT_BYTES) throw new Error("no discovery document");
  const document = JSON.parse(text) as { issuer?: string; jwks_uri?: string };
  if (document.issuer !== issuer) throw new Error("the document names another issuer");
  return jose.createRemoteJWKSet(await checkAddress(document.jwks_uri ?? ""), {
    cooldownDuration: 30_000,
    cacheMaxAge: CACHE_MILLISECONDS,
    [jose.customFetch]: fetchStrictly,
  });
}

/** Asks an issuer once in a while; one that does not answer not again at once, as a stranger can order it. */
function keysOf(issuer: string): Promise<Keys> {
  const cached = known.get(issuer);
  if (cached && cached.until > Date.now()) return cached.keys;
  if (known.size >= MAX_ISSUERS) known.clear();
  const fresh = { keys: discover(issuer), until: Date.now() + CACHE_MILLISECONDS };
  fresh.keys.catch(() => fresh.until = Date.now() + FAILURE_MILLISECONDS);
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

/**
 * Verifies an identity token against the trust of a service account; says why it fails. Everybody with an account at
 * a public issuer has tokens of it: at least one claim must say whose count.
 */
export async function verifyIdentity(token: string, trust: Trust): Promise<jose.JWTPayload> {
  if (Object.keys(trust.bound_claims).length === 0) throw new Error("no claim is bound");
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

/** Verifies an identity token against the trusts of its issuer; the last one's reason is told when none fits. */
export async function verifyAny(token: string, trusts: Trust[]): Promise<unknown> {
  const isAws = token.startsWith(AWS_PREFIX);
  const issuer = isAws ? AWS_ISSUER : jose.decodeJwt(token).iss;
  let reason: unknown = new Error(`the issuer ${issuer} is not trusted`);
  for (const trust of trusts.filter((each) => each.issuer === issuer)) {
    try {
      return await (isAws ? verifyAws(token, trust) : verifyIdentity(token, trust));
    } catch (error) {
      // One that could not be asked might have said yes.
      if (!(reason instanceof ProviderAway)) reason = error;
    }
  }
  throw reason;
}
