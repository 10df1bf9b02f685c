/**
 * The identity of a machine in AWS: it signs a GetCallerIdentity request, and STS, which alone can check the signature, names the
 * signer. The audience is one of the signed headers, so a request that was signed for others is refused.
 */

import { z } from "zod";
import { read } from "./env.ts";
import { ask } from "./identity_providers.ts";
import { checkClaims, type Trust } from "./trust.ts";

export const AWS_ISSUER = "https://sts.amazonaws.com";
export const AWS_PREFIX = "aws-iam.";
const AUDIENCE = "x-runyard-audience";
const REGIONS = ("af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 " +
  "ap-south-2 ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 " +
  "ap-southeast-6 ap-southeast-7 ca-central-1 ca-west-1 eu-central-1 eu-central-2 eu-north-1 " +
  "eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 " +
  "mx-central-1 sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2 us-gov-east-1 us-gov-west-1")
  .split(" ");
/** Exact names: `sts.<anything>.amazonaws.com` may be a bucket of somebody else's. */
const HOSTS = new Set([
  "sts.amazonaws.com",
  ...REGIONS.map((region) => `sts.${region}.amazonaws.com`),
  ...["us-east-1", "us-east-2", "us-west-1", "us-west-2"].map((region) => `sts-fips.${region}.amazonaws.com`),
  ...["cn-north-1", "cn-northwest-1"].map((region) => `sts.${region}.amazonaws.com.cn`),
  "sts.eusc-de-east-1.amazonaws.eu",
]);
const PARAMETERS = new Set([
  ...["Action", "Version"],
  ...["Algorithm", "Credential", "Date", "Expires", "Security-Token", "Signature", "SignedHeaders"]
    .map((name) => `X-Amz-${name}`),
]);
const MOST_SECONDS = 900;

function decode(token: string): URL {
  const text = token.slice(AWS_PREFIX.length).replaceAll("-", "+").replaceAll("_", "/");
  return new URL(atob(text));
}

/** The caller wrote the address: only STS is called, and only for the identity of the signer. */
function check(url: URL): void {
  const named = (read("RUNYARD_ISSUER_HOSTS") ?? "").split(",");
  const isSts = url.protocol === "https:" && HOSTS.has(url.host);
  if (!isSts && !named.includes(url.host)) throw new Error(`${url.host} is not STS`);
  const names = [...url.searchParams.keys()];
  if (!names.every((name) => PARAMETERS.has(name)) || new Set(names).size < names.length) {
    throw new Error("the request has unknown or repeated parameters");
  }
  const given = Object.fromEntries(url.searchParams);
  if (url.pathname !== "/" || given.Action !== "GetCallerIdentity") {
    throw new Error("the request is not GetCallerIdentity");
  }
  const seconds = Number(given["X-Amz-Expires"]);
  if (!(seconds >= 1 && seconds <= MOST_SECONDS)) {
    throw new Error(`the request must expire within ${MOST_SECONDS} seconds`);
  }
  if (!(given["X-Amz-SignedHeaders"] ?? "").split(";").includes(AUDIENCE)) {
    throw new Error("the audience is not signed");
  }
}

const signer = z.object({ Arn: z.string(), Account: z.string(), UserId: z.string() });
const answer = z.object({
  GetCallerIdentityResponse: z.object({ GetCallerIdentityResult: signer }),
});

/** The role of `arn:aws:sts::<account>:assumed-role/<role>/<session>`. */
function roleOf(arn: string): string | undefined {
  const [scheme, partition, service, region, account, resource, ...rest] = arn.split(":");
  const [kind, name, session] = (resource ?? "").split("/");
  const isRole = scheme === "arn" && service === "sts" && region === "" && rest.length === 0 &&
    kind === "assumed-role" && name && session;
  return isRole ? `arn:${partition}:iam::${account}:role/${name}` : undefined;
}

function claimsOf(text: string): Record<string, string> {
  const found = answer.parse(JSON.parse(text)).GetCallerIdentityResponse.GetCallerIdentityResult;
  const role = roleOf(found.Arn);
  const claims = { arn: found.Arn, account: found.Account, user_id: found.UserId };
  return role ? { ...claims, role } : claims;
}

/** STS leaves a role's path out. Names are unique in an account, so the path of a bound role is dropped. */
function withoutPath(role: unknown): unknown {
  if (Array.isArray(role)) return role.map(withoutPath);
  if (typeof role !== "string") return role;
  const parts = role.split("/");
  return parts.length > 2 ? `${parts[0]}/${parts.at(-1)}` : role;
}

function withPlainRole(trust: Trust): Trust {
  const { role, ...others } = trust.bound_claims;
  if (role === undefined) return trust;
  return { ...trust, bound_claims: { ...others, role: withoutPath(role) } };
}

/** Verifies a signed request against one trust; says why it fails. */
export async function verifyAws(token: string, trust: Trust): Promise<Record<string, string>> {
  const url = decode(token);
  check(url);
  const response = await ask({ url }, {
    headers: { [AUDIENCE]: trust.audience, accept: "application/json" },
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`STS answered ${response.status}`);
  const claims = claimsOf(text);
  checkClaims(claims, withPlainRole(trust));
  return claims;
}
