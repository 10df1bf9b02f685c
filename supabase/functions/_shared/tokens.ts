/** Tokens that the functions sign, with the key that the project's JWKS lists. */

import * as jose from "jose";
import { issuer, need } from "./env.ts";

export const WORKER_TOKEN_SECONDS = 15 * 60;
/** A lease: afterwards the function terraform alone accepts it, as long as the attempt has its lease. */
export const ENGINE_TOKEN_SECONDS = 60;
/** Longer than any job: a running engine keeps the token that it was started with. The database decides. */
const ENGINE_GRACE_SECONDS = 30 * 24 * 60 * 60;
export const ACCOUNT_TOKEN_SECONDS = 10 * 60;
/** For a runner whose renewal was held up by a short outage; the session row still decides. */
const RENEWAL_GRACE_SECONDS = 5 * 60;
/**
 * An executor has no credential to open a session with again, and what it did in an outage must not be lost; the database
 * renews it only while its attempt holds the job.
 */
const EXECUTOR_GRACE_SECONDS = 7 * 24 * 60 * 60;
const LINK_SECONDS = 60 * 60;
const LINK_USE_SECONDS = 60;
const LINK_AUDIENCE = "runyard:terraform";
const WORKER_AUDIENCE = "authenticated";
const ACCOUNT_AUDIENCE = "runyard:worker-session";

type Key = { alg: string; kid: string | undefined; sign: jose.CryptoKey; verify: jose.CryptoKey };
let key: Promise<Key> | undefined;

async function importKey(): Promise<Key> {
  const jwk = JSON.parse(need("WORKER_SIGNING_JWK")) as jose.JWK;
  const alg = jwk.alg ?? (jwk.kty === "EC" ? "ES256" : "HS256");
  // A key may name its use; we use one text for both halves.
  const { key_ops: _ops, use: _use, d, ...open } = jwk;
  const isSymmetric = jwk.kty === "oct";
  const sign = await jose.importJWK({ ...open, ...(d ? { d } : {}) }, alg) as jose.CryptoKey;
  const verify = isSymmetric ? sign : await jose.importJWK(open, alg) as jose.CryptoKey;
  return { alg, kid: jwk.kid, sign, verify };
}

function signingKey(): Promise<Key> {
  key ??= importKey();
  return key;
}

async function sign(claims: jose.JWTPayload, audience: string, seconds: number): Promise<string> {
  const { alg, kid, sign } = await signingKey();
  const now = Math.floor(Date.now() / 1000);
  return await new jose.SignJWT(claims)
    .setProtectedHeader({ alg, typ: "JWT", ...(kid ? { kid } : {}) })
    .setIssuer(issuer()).setAudience(audience)
    .setIssuedAt(now).setExpirationTime(now + seconds)
    .sign(sign);
}

async function verify(token: string, audience: string, tolerance: number): Promise<jose.JWTPayload | undefined> {
  const { alg, verify } = await signingKey();
  try {
    const options = { algorithms: [alg], audience, issuer: issuer(), clockTolerance: tolerance };
    const { payload } = await jose.jwtVerify(token, verify, {
      ...options,
      requiredClaims: ["exp", "sub"],
    });
    return payload;
  } catch {
    return undefined;
  }
}

export interface WorkerClaims {
  sub: string;
  sid: string;
  org: string | null;
  inst: string;
  /** Set in an executor's token: it is valid for this job and attempt alone. */
  job?: number;
  att?: number;
}

export interface JobClaims extends WorkerClaims {
  job: number;
  att: number;
}

const WORKER_ROLES: unknown[] = ["worker", "executor"];

/**
 * Signs a runner's token; every call checks its session, so it is short-lived and revocable.
 * One that names a job has the executor's role, which the database lets near no other job.
 */
export function signWorker(claims: WorkerClaims): Promise<string> {
  const role = claims.job === undefined ? "worker" : "executor";
  return sign({ ...claims, role }, WORKER_AUDIENCE, WORKER_TOKEN_SECONDS);
}

/**
 * Signs the token that a job's engine gets: it reads its own module's state and what was granted to that module, and
 * renews nothing. The database takes it only while the attempt runs.
 */
export function signEngine(claims: JobClaims): Promise<string> {
  return sign({ ...claims, role: "engine" }, WORKER_AUDIENCE, ENGINE_TOKEN_SECONDS);
}

/** Reads an engine's token that we signed, or nothing; its own time may be over, if its attempt is not. */
export async function verifyEngine(token: string): Promise<JobClaims | undefined> {
  const payload = await verify(token, WORKER_AUDIENCE, ENGINE_GRACE_SECONDS);
  if (payload?.role !== "engine") return undefined;
  const { sub, sid, org, inst, job, att } = payload as unknown as JobClaims;
  return { sub, sid, org, inst, job, att };
}

/** Reads a runner's token that we signed, or nothing; an engine's is none. */
export async function verifyWorker(token: string): Promise<WorkerClaims | undefined> {
  const payload = await verify(token, WORKER_AUDIENCE, EXECUTOR_GRACE_SECONDS);
  if (!WORKER_ROLES.includes(payload?.role) || typeof payload?.sid !== "string") return undefined;
  const isExecutor = payload.role === "executor";
  if (isExecutor !== (payload.job !== undefined)) return undefined;
  if (!isExecutor && Number(payload.exp) + RENEWAL_GRACE_SECONDS < Date.now() / 1000) {
    return undefined;
  }
  return payload as unknown as WorkerClaims;
}

/**
 * Signs a service account's token: good for opening a session, and for no table. The database takes it only while the
 * account has the version of its credentials that was proved.
 */
export function signAccount(id: string, org: string, version: number): Promise<string> {
  const claims = { sub: id, org, role: "service_account", account_version: version };
  return sign(claims, ACCOUNT_AUDIENCE, ACCOUNT_TOKEN_SECONDS);
}

/**
 * Signs the token that a service account acts with, as a member of its role does. Each call asks the account's row:
 * a token of an older version of its credentials is void at once. The audit log takes the address from it.
 */
export function signActing(id: string, org: string, version: number, address: string): Promise<string> {
  const claims = { sub: id, org, role: "authenticated", account_version: version, client_address: address };
  return sign(claims, WORKER_AUDIENCE, ACCOUNT_TOKEN_SECONDS);
}

/**
 * Signs the token that a person's program acts with. Each call asks the personal token's row. It names that as its
 * session, too: Auth knows no such session, so nobody changes a password or an address with it.
 */
export function signPersonal(id: string, user: string, email: string, address: string): Promise<string> {
  const claims = {
    sub: user,
    email,
    role: "authenticated",
    personal_token: id,
    session_id: id,
    client_address: address,
  };
  return sign(claims, WORKER_AUDIENCE, ACCOUNT_TOKEN_SECONDS);
}

export type Claims = jose.JWTPayload;

/** Reads a token that a personal token or a service account acts with, if we signed it. */
export async function verifyActing(token: string): Promise<Claims | undefined> {
  const payload = await verify(token, WORKER_AUDIENCE, 0);
  const isOurs = payload?.personal_token !== undefined || payload?.account_version !== undefined;
  return isOurs && payload?.role === "authenticated" ? payload : undefined;
}

/**
 * Signs the part of an address that acts for a caller in one matter, for an hour; the database still asks the caller's row.
 * Its role is none of the database's: hosted's REST asks nobody for an audience.
 */
export function signLink(caller: Claims, about: string): Promise<string> {
  return sign({ ...caller, role: "link", about }, LINK_AUDIENCE, LINK_SECONDS);
}

/** Reads such a part, and signs a token that acts for that caller for a minute. */
export async function openLink(text: string): Promise<{ about: string; caller: Claims; token: string } | undefined> {
  const payload = await verify(text, LINK_AUDIENCE, 0);
  if (typeof payload?.about !== "string") return undefined;
  const { about, ...claims } = payload;
  const caller = { ...claims, role: "authenticated" };
  return { about, caller, token: await sign(caller, WORKER_AUDIENCE, LINK_USE_SECONDS) };
}

/** Reads a service account's token that we signed, or nothing. */
export async function verifyAccount(token: string): Promise<{ sub: string; version: number } | undefined> {
  const payload = await verify(token, ACCOUNT_AUDIENCE, 0);
  const version = payload?.account_version;
  if (payload?.role !== "service_account" || typeof version !== "number") return undefined;
  return { sub: payload.sub as string, version };
}
