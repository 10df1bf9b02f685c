/**
 * Who a machine is in AWS: it signs a GetCallerIdentity request, and STS, which alone can check the signature, tells us
 * whose it is. The audience is one of the signed headers, so what was signed for others is of no use here.
 */

import { read } from "./env.ts";
import { ask } from "./providers.ts";
import { checkClaims, type Trust } from "./trust.ts";

export const AWS_ISSUER = "https://sts.amazonaws.com";
export const AWS_PREFIX = "aws-iam.";
const AUDIENCE = "x-runyard-audience";
const STS = /^sts\.([a-z0-9-]+\.)?amazonaws\.com(\.cn)?$/;
const PARAMETERS = /^(Action|Version|X-Amz-[A-Za-z-]+)$/;
const MOST_SECONDS = 900;

function decode(token: string): URL {
  const text = token.slice(AWS_PREFIX.length).replaceAll("-", "+").replaceAll("_", "/");
  return new URL(atob(text));
}

/** Asks nobody but STS, and nothing but who signed: the address was written by the caller. */
function check(url: URL): void {
  const named = (read("RUNYARD_ISSUER_HOSTS") ?? "").split(",");
  const isSts = url.protocol === "https:" && STS.test(url.hostname) && url.port === "";
  if (!isSts && !named.includes(url.host)) throw new Error(`${url.host} is not STS`);
  const given = url.searchParams;
  if (url.pathname !== "/" || given.get("Action") !== "GetCallerIdentity") {
    throw new Error("the request asks for something else");
  }
  if (![...given.keys()].every((name) => PARAMETERS.test(name))) {
    throw new Error("the request says more than it should");
  }
  if (Number(given.get("X-Amz-Expires") ?? Infinity) > MOST_SECONDS) {
    throw new Error("the request is good for too long");
  }
  if (!(given.get("X-Amz-SignedHeaders") ?? "").split(";").includes(AUDIENCE)) {
    throw new Error("the audience is not signed");
  }
}

/** Reads the answer, which is JSON from AWS and XML from those who speak its older form. */
function claimsOf(text: string): Record<string, string> {
  const find = (name: string) =>
    text.match(new RegExp(`<${name}>([^<]+)<|"${name}"\\s*:\\s*"([^"]+)"`))?.slice(1).find(Boolean);
  const [arn, account, user] = [find("Arn"), find("Account"), find("UserId")];
  if (!arn || !account) throw new Error("STS did not say who it was");
  const role = arn.match(/^arn:([a-z-]+):sts::(\d+):assumed-role\/([^/]+)\//);
  return {
    arn,
    account,
    user_id: user ?? "",
    ...(role ? { role: `arn:${role[1]}:iam::${role[2]}:role/${role[3]}` } : {}),
  };
}

/** Verifies a signed request against one trust; says why it fails. */
export async function verifyAws(token: string, trust: Trust): Promise<Record<string, string>> {
  const url = decode(token);
  check(url);
  const response = await ask(url, {
    headers: { [AUDIENCE]: trust.audience, accept: "application/json" },
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`STS answered ${response.status}`);
  const claims = claimsOf(text);
  checkClaims(claims, trust);
  return claims;
}
