/**
 * Gives a service account its token: for a client id and secret, or for an identity provider's
 * token that the account trusts. The token opens a runner's session and reads no table; with
 * `scope=api` it acts as the account's role allows, and opens no session. A person's own token is
 * exchanged here as well, for a login that acts as that person.
 */

import { z } from "zod";
import { attempt } from "../_shared/attempts.ts";
import { call, callFor, clientIdAt, limit, organizationAt, organizationOf } from "../_shared/database.ts";
import { publicUrl, publishableKey } from "../_shared/env.ts";
import { addressOf, Answer, has, json, parse, readBody, seenAddress, serveWith } from "../_shared/http.ts";
import { verifyAny } from "../_shared/oidc.ts";
import { ProviderAway } from "../_shared/identity_providers.ts";
import { findMatch, type StoredHash } from "../_shared/secrets.ts";
import { ACCOUNT_TOKEN_SECONDS, signAccount, signActing } from "../_shared/tokens.ts";
import { PERSONAL_TOKEN, personOf } from "../_shared/persons.ts";
import { type Trust } from "../_shared/trust.ts";

const PER_ADDRESS = 240;
const PER_CLIENT = 60;
const TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer";

const REFUSED = {
  code: "RY401",
  error: "invalid_client",
  message: "The service account is not known, or its credential is not valid.",
};

const PROVIDER_AWAY = {
  code: "RY503",
  error: "temporarily_unavailable",
  message: "The identity provider does not answer, so the identity cannot be checked.",
  hint: "Try again in half a minute.",
};

const token = z.string().min(1).max(16_384);
const common = {
  client_id: z.string().min(1).max(200),
  worker_id: z.uuid().optional(),
  scope: z.enum(["session", "api"]).default("session"),
};
const secret = z.string().min(1).max(512);
const request = z.discriminatedUnion("grant_type", [
  z.object({ grant_type: z.literal("client_credentials"), ...common, client_secret: secret }),
  z.object({ grant_type: z.literal(TOKEN_EXCHANGE), ...common, subject_token: token }),
  z.object({ grant_type: z.literal(JWT_BEARER), ...common, assertion: token }),
]);
type TokenRequest = z.infer<typeof request>;
const PERSONAL = "urn:runyard:grant-type:personal-token";
const personal = z.strictObject({ grant_type: z.literal(PERSONAL), token: z.string().regex(PERSONAL_TOKEN) });

type Account = { id: string; org_id: string; version: number; trusts?: Trust[]; hashes?: StoredHash[] };

function refuse(): never {
  throw new Answer(401, REFUSED, { "www-authenticate": 'Basic realm="runyard"' });
}

/** Adds the client's id and secret from a Basic header, where OAuth clients put them. */
function withBasic(http: Request, body: unknown): unknown {
  const header = http.headers.get("authorization") ?? "";
  if (!header.startsWith("Basic ") || typeof body !== "object") return body;
  try {
    const pair = atob(header.slice("Basic ".length));
    const [id, ...secret] = pair.split(":").map(decodeURIComponent);
    return { ...body, client_id: id, client_secret: secret.join(":") };
  } catch {
    return body;
  }
}

const CLIENT_ID = /^rysa_/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Finds the account by its client id, or by its path as `group/name`. A path is looked up in the
 * organisation of `<id or short name>:<path>`, else in that of the runner that asks; `<organisation>:`
 * before a client id pins the organisation.
 */
async function accountFor({ client_id: id, worker_id }: TokenRequest): Promise<Account | null> {
  const [place, name] = id.includes(":") ? id.split(":", 2) : [undefined, id];
  const org = place === undefined || UUID.test(place) ? place : await organizationAt(place);
  if (place !== undefined && org === undefined) return null;
  const client = CLIENT_ID.test(name) ? name : await clientAt(name, org, worker_id);
  if (client === undefined) return null;
  const account = await call<Account | null>("service_account_for", { p_client_id: client });
  return account && (org === undefined || account.org_id === org) ? account : null;
}

async function clientAt(path: string, org?: string, worker?: string): Promise<string | undefined> {
  const owner = org ?? (worker && await organizationOf(worker));
  return owner ? await clientIdAt(owner, path) : undefined;
}

async function bySecret(
  http: Request,
  body: Extract<TokenRequest, { client_secret: string }>,
): Promise<Account | null> {
  const { client_id: name, client_secret: secret } = body;
  const address = addressOf(http);
  const about = { kind: "account", name, secret, address } as const;
  const found = await attempt({ ...about, perAddress: PER_ADDRESS }, async () => {
    const account = await accountFor(body);
    const owner = account?.org_id ?? address;
    const match = await findMatch(secret, account?.hashes ?? [], { name, owner });
    return match && account ? account : undefined;
  });
  return found ?? null;
}

type Verdict = "right" | "wrong" | "unknown";

async function judge(account: Account | null, text: string): Promise<Verdict> {
  if (!account?.trusts?.length) return "wrong";
  try {
    await verifyAny(text, account.trusts);
    return "right";
  } catch (error) {
    console.warn(`identity refused: ${error instanceof Error ? error.message : error}`);
    return error instanceof ProviderAway ? "unknown" : "wrong";
  }
}

/** A good identity is never held up by bad ones: only failures count, per caller. */
async function byIdentity(http: Request, body: TokenRequest, text: string): Promise<Account | null> {
  const account = await accountFor(body);
  const verdict = await judge(account, text);
  if (verdict === "right") return account;
  const address = addressOf(http);
  await limit([
    [`account:address:${address}`, PER_ADDRESS],
    [`account:unproven:${body.client_id}:${address}`, PER_CLIENT],
  ]);
  // Not a refusal: a runner that is refused leaves for good.
  if (verdict === "unknown") throw new Answer(503, PROVIDER_AWAY, { "retry-after": "30" });
  return null;
}

function prove(http: Request, body: TokenRequest): Promise<Account | null> {
  switch (body.grant_type) {
    case "client_credentials":
      return bySecret(http, body);
    case TOKEN_EXCHANGE:
      return byIdentity(http, body, body.subject_token);
    case JWT_BEARER:
      return byIdentity(http, body, body.assertion);
  }
}

/** Signs a token to act with; an account that has proved its identity receives the reason of a refusal. */
async function acting(account: Account, address: string): Promise<Record<string, unknown>> {
  const { id, org_id, version } = account;
  const { role } = await callFor("use_service_account", { p_account: id }, () => 403, {
    error: "unauthorized_client",
  });
  // The version that was proved: another secret may have come since.
  const access_token = await signActing(id, org_id, version, address);
  return { access_token, role, organization_id: org_id, ...project() };
}

async function asAccount(http: Request, body: TokenRequest): Promise<Record<string, unknown>> {
  const account = await prove(http, body) ?? refuse();
  if (body.scope === "api") return await acting(account, seenAddress(http));
  return { access_token: await signAccount(account.id, account.org_id, account.version) };
}

const project = () => ({ url: publicUrl(), publishable_key: publishableKey() });

export const handler = serveWith(async (http) => {
  const body = await readBody(http);
  const granted = has(body, "grant_type") && body.grant_type === PERSONAL
    ? { ...await personOf(http, parse(personal, body).token), ...project() }
    : await asAccount(http, parse(request, withBasic(http, body)));
  return json(200, {
    ...granted,
    token_type: "Bearer",
    expires_in: ACCOUNT_TOKEN_SECONDS,
    issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
  });
});
