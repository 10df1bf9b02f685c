/**
 * Signing in with the company's account: which provider speaks for an address, and what an owner sets. The database
 * decides who may; the provider's secret goes to Auth and is kept nowhere else.
 */

import { z } from "zod";
import { asCaller } from "../_shared/calling.ts";
import { call, callFor, limit } from "../_shared/database.ts";
import { need, read, secretKey } from "../_shared/env.ts";
import { addressOf, Answer, has, json, parse, readBody, serveWith } from "../_shared/http.ts";
import { discover } from "../_shared/oidc.ts";

/** In a minute. A dashboard asks for all its visitors from one address. */
const PER_ADDRESS = 240;
const PER_ORGANIZATION = 30;
const DNS_SECONDS = 5;
const PUBLIC_DNS = "https://cloudflare-dns.com/dns-query";

const asked = z.strictObject({ email: z.string().min(3).max(320) });
const proving = z.strictObject({ organization: z.uuid(), domain: z.string().min(3).max(253) });
const removing = z.strictObject({ organization: z.uuid(), remove: z.literal(true) });
const saving = z.strictObject({
  organization: z.uuid(),
  name: z.string().min(1).max(60),
  issuer: z.url({ protocol: /^https?$/ }).max(500),
  client_id: z.string().min(1).max(500),
  client_secret: z.string().max(2000).default(""),
  claim: z.string().min(1).max(200).default("groups"),
  scopes: z.string().max(500).optional(),
});
type Saving = z.infer<typeof saving>;
type Row = Record<string, unknown>;

async function auth(method: string, path: string, body?: unknown): Promise<number> {
  const response = await fetch(`${need("SUPABASE_URL")}/auth/v1/admin/custom-providers${path}`, {
    method,
    headers: { apikey: secretKey(), authorization: `Bearer ${secretKey()}`, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    redirect: "manual",
  });
  const text = await response.text();
  if (response.ok || response.status === 404) return response.status;
  console.error(`custom-providers: ${response.status} ${text.slice(0, 500)}`);
  const refusal = { code: "RY422", message: "Auth refused the provider.", hint: text.slice(0, 300) };
  throw new Answer(response.status < 500 ? 400 : 503, refusal);
}

async function save(request: Request, spec: Saving): Promise<Response> {
  // Nobody else makes this installation ask an address.
  await asCaller<Row>(request, "sign_in_settings", { p_org: spec.organization });
  await discover(spec.issuer).catch((error) => {
    const hint = `${error instanceof Error ? error.message : error}.`;
    throw new Answer(400, { code: "RY422", message: "The issuer has no valid discovery document.", hint });
  });
  const saved = await asCaller<Row>(request, "set_sign_in_provider", {
    p_org: spec.organization,
    p_name: spec.name,
    p_issuer: spec.issuer,
    p_client_id: spec.client_id,
    p_claim: spec.claim,
    p_secret_hint: spec.client_secret ? spec.client_secret.slice(-4) : null,
  });
  const identifier = String(saved.provider);
  const provider = {
    name: spec.name,
    issuer: spec.issuer,
    client_id: spec.client_id,
    // Entra's claim for an address whose domain its tenant owns is read by the database.
    custom_claims_allowlist: [spec.claim, "amr", "acr", "xms_edov"],
    // What is not given stays as it is.
    ...(spec.client_secret ? { client_secret: spec.client_secret } : {}),
    ...(spec.scopes ? { scopes: spec.scopes.split(/\s+/).filter(Boolean) } : {}),
  };
  if (await auth("PUT", `/${encodeURIComponent(identifier)}`, provider) === 404) {
    const scopes = ["openid", "email", "profile"];
    await auth("POST", "", { provider_type: "oidc", identifier, scopes, ...provider });
  }
  return json(200, saved);
}

async function remove(request: Request, organization: string): Promise<Response> {
  const removed = await asCaller<Row>(request, "remove_sign_in_provider", { p_org: organization });
  await auth("DELETE", `/${encodeURIComponent(String(removed.provider))}`);
  return json(200, removed);
}

/** The texts of a name in DNS, asked over HTTPS: hosted functions and closed networks reach no other resolver. */
async function textsOf(name: string): Promise<string[]> {
  const url = new URL(read("RUNYARD_DNS_URL") || PUBLIC_DNS);
  url.searchParams.set("name", name);
  url.searchParams.set("type", "TXT");
  try {
    const signal = AbortSignal.timeout(DNS_SECONDS * 1000);
    const response = await fetch(url, { headers: { accept: "application/dns-json" }, signal });
    const said = await response.json() as { Answer?: { type?: number; data?: string }[] };
    const found = (said.Answer ?? []).filter((each) => each.type === 16).slice(0, 100);
    return found.map((each) => (each.data ?? "").replace(/"\s+"/g, "").replace(/^"|"$/g, ""));
  } catch (error) {
    console.error(`${url.host}: ${error instanceof Error ? error.message : error}`);
    const hint = "Try again in a moment; RUNYARD_DNS_URL names another resolver.";
    throw new Answer(503, { code: "RY503", message: "The DNS resolver did not answer.", hint });
  }
}

async function prove(request: Request, organization: string, domain: string): Promise<Response> {
  const settings = await asCaller<Row>(request, "sign_in_settings", { p_org: organization });
  const listed = (settings.domains as { domain: string; record: string }[])
    .find((each) => each.domain === domain);
  if (!listed) {
    throw new Answer(404, { code: "RY404", message: "This organisation has no such domain." });
  }
  await limit([[`sign-in:dns:${organization}`, PER_ORGANIZATION]]);
  const texts = await textsOf(listed.record);
  const args = { p_org: organization, p_domain: domain, p_texts: texts };
  return json(200, await callFor("prove_sign_in_domain", args, () => 409));
}

async function lookUp(request: Request, email: string): Promise<Response> {
  await limit([[`sign-in:${addressOf(request)}`, PER_ADDRESS]]);
  return json(200, await call<Row | null>("sign_in_provider_of", { p_email: email }) ?? {});
}

export const handler = serveWith(async (request) => {
  const body = await readBody(request);
  if (has(body, "issuer")) return await save(request, parse(saving, body));
  if (has(body, "remove")) return await remove(request, parse(removing, body).organization);
  if (has(body, "domain")) {
    const { organization, domain } = parse(proving, body);
    return await prove(request, organization, domain);
  }
  return await lookUp(request, parse(asked, body).email);
});
