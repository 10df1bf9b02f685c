/** A person's program or a service account that asks, and the database's calls in its name. */

import { callAs, type Said } from "../_shared/calling.ts";
import { digest } from "../_shared/codes.ts";
import { bearerOf, readBytes, readJson } from "../_shared/http.ts";
import { PERSONAL_TOKEN, personOf } from "../_shared/persons.ts";
import { type Claims, openLink, signLink, verifyActing } from "../_shared/tokens.ts";
import { refuse, refuseAs } from "./documents.ts";

const MOST_JSON = 48 * 1024 * 1024;
const TYPES = ["application/vnd.api+json", "application/json"];
const KEPT_MS = 5 * 60 * 1000;
const MOST_KEPT = 10_000;

// The database asks the token's row at each call, so that one that was revoked is over at once.
const exchanged = new Map<string, { token: string; until: number }>();

async function exchange(http: Request, secret: string): Promise<string> {
  const hash = await digest(secret);
  const known = exchanged.get(hash);
  if (known && known.until > Date.now()) return known.token;
  const { access_token: token } = await personOf(http, secret).catch((error) => {
    refuse(error.status ?? 503, error.message, error.body?.hint);
  });
  if (exchanged.size >= MOST_KEPT) exchanged.clear();
  exchanged.set(hash, { token, until: Date.now() + KEPT_MS });
  return token;
}

// deno-lint-ignore no-explicit-any
export type Row = Record<string, any>;

export class Caller {
  constructor(readonly token: string, readonly claims: Claims, readonly base: string) {}

  /** Calls the database in the caller's name; its refusal is the answer. */
  async call<T = Row>(name: string, args: Record<string, unknown> = {}): Promise<T> {
    const { status, said } = await callAs(this.token, name, args);
    if (status >= 300) refuseAs(status, said as Said);
    return said as T;
  }

  /** An address that does one thing in the caller's name, for an hour. */
  async link(kind: string, about: string): Promise<string> {
    return `${this.base}/api/v2/${kind}/${await signLink(this.claims, `${kind}:${about}`)}`;
  }
}

export async function callerOf(http: Request, base: string): Promise<Caller> {
  const bearer = bearerOf(http);
  if (bearer === undefined) refuse(401, "Sign in: tofu login, or TF_TOKEN_<host>.");
  const token = PERSONAL_TOKEN.test(bearer) ? await exchange(http, bearer) : bearer;
  const claims = await verifyActing(token);
  if (!claims) {
    refuse(401, "The token is not accepted.", "Use a personal token, or a service account's for the API.");
  }
  return new Caller(token, claims, base);
}

/** The subject of an address that we signed, after its kind. */
export async function linked(text: string, kind: string, base: string): Promise<[string[], Caller]> {
  const found = await openLink(text);
  if (!found?.about.startsWith(`${kind}:`)) {
    refuse(404, "This address is not valid any more.", "Ask for it again: it is valid for an hour.");
  }
  return [found.about.split(":").slice(1), new Caller(found.token, found.caller, base)];
}

export interface Given {
  attributes: Row;
  relationships: Row;
  /** Of a list of resources. */
  list: Row[];
}

/** Reads a JSON:API document; an empty one is allowed. */
export async function given(http: Request): Promise<Given> {
  const bytes = await readBytes(http, MOST_JSON).catch(() => refuse(413, "The request is too large."));
  const type = (http.headers.get("content-type") ?? "").split(";")[0].trim();
  if (bytes.length > 0 && !TYPES.includes(type)) {
    refuse(415, `The content type "${type}" is not read.`, `Send ${TYPES[0]}.`);
  }
  const body = bytes.length ? readJson(new TextDecoder().decode(bytes)) as Row : {};
  const data = body?.data ?? body ?? {};
  const parts = Array.isArray(data) ? data : [data, data.attributes ?? {}];
  if (parts.some((each) => typeof each !== "object" || each === null)) refuse(422, "A resource is an object with attributes.");
  if (Array.isArray(data)) return { attributes: {}, relationships: {}, list: data };
  return { attributes: data.attributes ?? data, relationships: data.relationships ?? {}, list: [] };
}
