/**
 * Exchanges a runner's token for a session, renews it, and gives an executor a token for one job.
 * bcrypt runs here once per session and nowhere else; every failure has the same answer.
 */

import { attempt } from "../_shared/attempts.ts";
import { call, limit, organizationOf, Refusal } from "../_shared/database.ts";
import { publicUrl, publishableKey, read } from "../_shared/env.ts";
import { addressOf, Answer, bearerOf, has, json, parse, readBody, serveWith } from "../_shared/http.ts";
import { findMatch, type StoredHash } from "../_shared/secrets.ts";
import {
  ENGINE_TOKEN_SECONDS,
  signEngine,
  signWorker,
  verifyAccount,
  verifyWorker,
  WORKER_TOKEN_SECONDS,
  type WorkerClaims,
} from "../_shared/tokens.ts";
import {
  type CheckRequest,
  checkRequest,
  type JobRequest,
  jobRequest,
  type OpenRequest,
  openRequest,
  renewRequest,
} from "./request.ts";

/** Attempts in a minute. A hash costs a tenth of a second, and replicas start together. */
const PER_ADDRESS = Number(read("RUNYARD_SESSIONS_PER_ADDRESS") ?? 240);
const RENEWALS_PER_MINUTE = 30;
/** For all jobs of a session together: a runner that names many jobs gets no more than a busy one needs. */
const REQUESTS_PER_MINUTE = 600;

const REFUSED = {
  code: "RY401",
  message: "The runner is not known, or its credential is not valid.",
  hint: "Check WORKER_ID and WORKER_TOKEN, or rotate the token on the Runners page.",
};

interface OpenedSession extends Record<string, unknown> {
  session_id: string;
  instance_id: string;
  epoch: number;
  org_id: string | null;
  worker_name: string;
}

function refuse(): never {
  throw new Answer(401, REFUSED);
}

const STATUS_OF: Record<string, number> = { RY409: 409, RY429: 429, RY422: 400 };

/** Turns the database's refusals into answers; a conflict, and an account that is not assigned, say more than "no". */
function answerFor(refusal: Refusal): Answer {
  const { code, message, hint } = refusal;
  const isUnassigned = code === "RY403" && message.startsWith("The service account ");
  const status = STATUS_OF[code] ?? (isUnassigned ? 403 : undefined);
  if (status === undefined) return new Answer(401, REFUSED);
  const headers: Record<string, string> = status === 429 ? { "retry-after": "60" } : {};
  return new Answer(status, { code, message, hint }, headers);
}

async function asAnswers<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof Refusal ? answerFor(error) : error;
  }
}

/**
 * Checks the credential; answers which stored token or which service account it was. A signature costs little and
 * cannot be guessed: only a runner's own token is limited.
 */
async function authenticate(request: Request, body: OpenRequest | CheckRequest): Promise<Record<string, unknown>> {
  if (body.access_token !== undefined) {
    const account = await verifyAccount(body.access_token);
    if (!account) refuse();
    return { p_service_account: account.sub, p_account_version: account.version };
  }
  const [name, secret] = [body.worker_id.toLowerCase(), body.worker_token ?? ""];
  const address = addressOf(request);
  const about = { kind: "session", name, secret, address } as const;
  const match = await attempt({ ...about, perAddress: PER_ADDRESS }, async () => {
    const [stored, org] = await Promise.all([
      call<StoredHash[]>("worker_token_hashes", { p_worker: name }),
      organizationOf(name),
    ]);
    return await findMatch(secret, stored ?? [], { name, owner: org ?? address });
  });
  return match ? { p_token: match.token_id } : refuse();
}

async function check(request: Request, body: CheckRequest): Promise<Response> {
  const proof = await authenticate(request, body);
  await asAnswers(call("check_worker_credential", { p_worker: body.worker_id, ...proof }));
  return json(200, { is_valid: true, url: publicUrl(), publishable_key: publishableKey() });
}

/** Refuses before anything is opened or taken over; the caller has proved to be the runner, so it receives the reason. */
async function checkOrganization(expected: string, workerId: string): Promise<void> {
  if (await organizationOf(workerId) === expected.toLowerCase()) return;
  throw new Answer(400, {
    code: "RY422",
    message: "This runner belongs to another organisation than its settings say.",
    hint: "Check Runner.OrganizationId (WORKER_ORGANIZATION_ID) and WORKER_ID.",
  });
}

async function open(request: Request, body: OpenRequest): Promise<Response> {
  const proof = await authenticate(request, body);
  if (body.organization_id) await checkOrganization(body.organization_id, body.worker_id);
  const session = await asAnswers(call<OpenedSession>("open_worker_session", {
    p_worker: body.worker_id,
    p_instance: body.instance,
    p_boot_id: body.boot_id,
    p_facts: body.facts,
    ...proof,
  }));
  return await granted(session, body.worker_id);
}

async function granted(session: OpenedSession, workerId: string): Promise<Response> {
  const { session_id, instance_id, epoch, org_id, worker_name, ...rest } = session;
  const claims = { sub: workerId, sid: session_id, org: org_id, inst: instance_id };
  return await reply(claims, {
    epoch,
    realtime: { topics: [`worker:${workerId}`] },
    worker: { ...rest, id: workerId, name: worker_name, org_id },
  });
}

/** Requests for one job do not use up its runner's renewals: a busy runner starts many jobs a minute. */
function renewalKey({ sid, job, att }: WorkerClaims, about?: JobRequest["job"]): string {
  const id = job ?? about?.id;
  return `session:renew:${sid}${id === undefined ? "" : `:${id}:${att ?? about?.attempt}`}`;
}

/** Reads the caller's own token; its session decides whether it still counts. */
async function callerOf(request: Request, about?: JobRequest["job"]): Promise<WorkerClaims> {
  const token = bearerOf(request);
  const claims = token ? await verifyWorker(token) : undefined;
  if (claims === undefined) refuse();
  await limit([
    [renewalKey(claims, about), RENEWALS_PER_MINUTE],
    [`session:requests:${claims.sid}`, REQUESTS_PER_MINUTE],
  ]);
  const { sid, job = null, att = null } = claims;
  await asAnswers(call("renew_worker_session", { p_session: sid, p_job: job, p_attempt: att }));
  return claims;
}

async function reply(claims: WorkerClaims, more: Record<string, unknown> = {}): Promise<Response> {
  return json(200, {
    ...more,
    access_token: await signWorker(claims),
    token_type: "Bearer",
    expires_in: WORKER_TOKEN_SECONDS,
    session_id: claims.sid,
    instance_id: claims.inst,
    url: publicUrl(),
    publishable_key: publishableKey(),
  });
}

function pick({ sub, sid, org, inst, job, att }: WorkerClaims): WorkerClaims {
  return { sub, sid, org, inst, ...(job === undefined ? {} : { job, att }) };
}

/** Gives a token for one job; an executor's token can never become another's or the runner's. */
async function forJob(request: Request, { job, engine }: JobRequest): Promise<Response> {
  const claims = await callerOf(request, job);
  if (engine) return await forEngine(claims, job);
  if (claims.job !== undefined) refuse();
  return await reply({ ...pick(claims), job: job.id, att: job.attempt });
}

/** Gives the token for what a job runs; an executor may ask for its own job's. */
async function forEngine(claims: WorkerClaims, job: JobRequest["job"]): Promise<Response> {
  const isOwn = claims.job === job.id && claims.att === job.attempt;
  if (claims.job !== undefined && !isOwn) refuse();
  const access_token = await signEngine({ ...pick(claims), job: job.id, att: job.attempt });
  return json(200, { access_token, token_type: "Bearer", expires_in: ENGINE_TOKEN_SECONDS });
}

export const handler = serveWith(async (request) => {
  const body = await readBody(request);
  if (renewRequest.safeParse(body).success) return await reply(pick(await callerOf(request)));
  const job = jobRequest.safeParse(body);
  if (job.success) return await forJob(request, job.data);
  if (has(body, "check")) return await check(request, parse(checkRequest, body));
  return await open(request, parse(openRequest, body));
});
