/** Trust in another identity provider: issuer, audience, claims and algorithms are pinned. */

import * as jose from "jose";
import { checkAddress } from "./addresses.ts";
import { AWS_ISSUER, AWS_PREFIX, verifyAws } from "./aws.ts";
import { ask, ProviderAway } from "./identity_providers.ts";
import { checkClaims, type Trust } from "./trust.ts";

/** Public-key algorithms only: with HS256 a public key could be used as the secret. */
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "ES256", "ES384", "EdDSA"];
const MAX_DOCUMENT_BYTES = 256 * 1024;
const CACHE_MILLISECONDS = 10 * 60 * 1000;
const FAILURE_MILLISECONDS = 30 * 1000;
const MAX_ISSUERS = 100;
type Keys = ReturnType<typeof jose.createRemoteJWKSet>;
type Known = { keys: Promise<Keys>; until: number };
const known = new Map<string, Known>();

const fetchStrictly: jose.FetchImplementation = async (url, options) =>
  await ask(await checkAddress(url), { headers: options.headers });

/** Reads an issuer's discovery document, which must name this very issuer. */
export async function discover(issuer: string): Promise<Keys> {
  const address = `${issuer.replace(/\/+$/, "")}/.well-known/openid-configuration`;
  const response = await ask(await checkAddress(address));
  const text = await response.text();
  if (!response.ok || text.length > MAX_DOCUMENT_BYTES) throw new Error("no discovery document");
  const document = JSON.parse(text) as { issuer?: string; jwks_uri?: string };
  if (document.issuer !== issuer) throw new Error("the document names another issuer");
  return jose.createRemoteJWKSet((await checkAddress(document.jwks_uri ?? "")).url, {
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
  checkClaims(payload, trust);
  return payload;
}

/** Verifies an identity token against the trusts of its issuer; the last one's reason is returned when none fits. */
export async function verifyAny(token: string, trusts: Trust[]): Promise<unknown> {
  const isAws = token.startsWith(AWS_PREFIX);
  const issuer = isAws ? AWS_ISSUER : jose.decodeJwt(token).iss;
  let reason: unknown = new Error(`the issuer ${issuer} is not trusted`);
  for (const trust of trusts.filter((each) => each.issuer === issuer)) {
    try {
      return await (isAws ? verifyAws(token, trust) : verifyIdentity(token, trust));
    } catch (error) {
      // One that could not be reached might have accepted it.
      if (!(reason instanceof ProviderAway)) reason = error;
    }
  }
  throw reason;
}
