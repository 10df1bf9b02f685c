/** Tokens of a GitHub App's installation: signed for with the app's key, for an hour, one repository and few rights. */

import { createPrivateKey } from "node:crypto";
import * as jose from "jose";
import { checkAddress, RECEIVER } from "./addresses.ts";
import { digest } from "./codes.ts";
import { sendTo } from "./outgoing.ts";

export type Installation = { api_url: string; number: number; installation: number; repository: string };

export type InstallationToken = { token: string; expires_at: string };

const TIMEOUT_MILLISECONDS = 10_000;
/** GitHub refuses more than ten minutes, and a clock that is ahead. */
const LIFE_SECONDS = 9 * 60;
const SKEW_SECONDS = 60;
/** Renewed well before its hour is over. */
const KEPT_MILLISECONDS = 50 * 60 * 1000;
const kept = new Map<string, { until: number; token: Promise<InstallationToken> }>();

/** GitHub's keys are PKCS #1, which only node's own reader understands. */
async function jwtOf(number: number, pem: string): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iat: now - SKEW_SECONDS, exp: now + LIFE_SECONDS, iss: String(number) };
  const key = createPrivateKey(pem).export({ type: "pkcs8", format: "pem" }) as string;
  return await new jose.SignJWT(claims).setProtectedHeader({ alg: "RS256", typ: "JWT" })
    .sign(await jose.importPKCS8(key, "RS256"));
}

/** Sends a request to GitHub's API, to the address that was checked. */
export async function askGithub(url: string, init: { bearer?: string; body?: unknown }) {
  const target = await checkAddress(url, undefined, RECEIVER);
  const response = await sendTo(target, {
    method: "POST",
    headers: {
      "accept": "application/vnd.github+json",
      "content-type": "application/json",
      "user-agent": "Runyard",
      "x-github-api-version": "2022-11-28",
      ...(init.bearer ? { authorization: `Bearer ${init.bearer}` } : {}),
    },
    body: JSON.stringify(init.body ?? {}),
    signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`GitHub answered ${response.status}`);
  return JSON.parse(text) as Record<string, unknown>;
}

async function request(
  { api_url, number, installation, repository }: Installation,
  pem: string,
  permissions: Record<string, string>,
): Promise<InstallationToken> {
  const url = `${api_url.replace(/\/+$/, "")}/app/installations/${installation}/access_tokens`;
  const body = { repositories: [repository], permissions };
  const { token, expires_at } = await askGithub(url, { bearer: await jwtOf(number, pem), body });
  if (typeof token !== "string") throw new Error("GitHub gave no token");
  return { token, expires_at: String(expires_at) };
}

/** A token of the installation, kept for most of its hour: for the organisation and the key that it was given for. */
export async function installationToken(
  org: string,
  which: Installation,
  pem: string,
  permissions: Record<string, string>,
): Promise<InstallationToken> {
  const key = JSON.stringify([org, await digest(pem), which, permissions]);
  const found = kept.get(key);
  if (found && found.until > Date.now()) return await found.token;
  const token = request(which, pem, permissions);
  kept.set(key, { until: Date.now() + KEPT_MILLISECONDS, token });
  token.catch(() => kept.delete(key));
  return await token;
}
