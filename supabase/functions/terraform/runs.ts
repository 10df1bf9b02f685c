/** Uploads, runs, plans, applies and their logs. A run has the id of its plan. */

import { digest } from "../_shared/codes.ts";
import { dashboardUrl } from "../_shared/env.ts";
import { readBytes } from "../_shared/http.ts";
import { checkArchive } from "./archive.ts";
import { type Caller, type Given, linked, type Row } from "./callers.ts";
import { api, at, nothing, one, page, refuse, type Resource, short, to } from "./documents.ts";
import { literal } from "./literals.ts";
import { byId, workspace } from "./workspaces.ts";

const MOST_PACKED = 25 * 1024 * 1024;
const MOST_LOG = 256 * 1024;

/** A job's status: of a plan as [run, plan], and of an apply as [run, apply]. */
const STATUSES: Record<string, { plan: [string, string]; apply: [string, string] }> = {
  AWAITING_APPROVAL: { plan: ["pending", "pending"], apply: ["apply_queued", "queued"] },
  QUEUED: { plan: ["pending", "pending"], apply: ["apply_queued", "queued"] },
  CLAIMED: { plan: ["planning", "running"], apply: ["applying", "running"] },
  PROCESSING: { plan: ["planning", "running"], apply: ["applying", "running"] },
  SUCCEEDED: { plan: ["planned", "finished"], apply: ["applied", "finished"] },
  FAILED: { plan: ["errored", "errored"], apply: ["errored", "errored"] },
  NEEDS_ATTENTION: { plan: ["errored", "errored"], apply: ["errored", "errored"] },
  CANCELLED: { plan: ["canceled", "canceled"], apply: ["canceled", "canceled"] },
};
const OVER = ["SUCCEEDED", "FAILED", "CANCELLED", "NEEDS_ATTENTION"];

const isAppliable = (row: Row) =>
  row.is_confirmation || row.status === "SUCCEEDED" && !row.apply_id && row.has_changes && !row.problem && !row.discarded_at;

/** Whether a policy check of a plan waits for an override. */
const isHeld = (row: Row) => !row.discarded_at && (row.checks ?? []).some((each: Row) => !each.overridden_by);

function statusOf(row: Row): string {
  if (row.discarded_at) return "discarded";
  if (isHeld(row)) return "policy_override";
  if (row.apply_id && !row.is_confirmation) return STATUSES[row.apply_status].apply[0];
  return row.status === "SUCCEEDED" && !isAppliable(row) ? "planned_and_finished" : STATUSES[row.status].plan[0];
}

function run(row: Row): Resource {
  const options = row.options ?? {};
  const isLive = !OVER.includes(row.apply_status ?? row.status);
  return {
    id: `run-${row.id}`,
    type: "runs",
    attributes: {
      status: statusOf(row),
      message: row.message ?? "",
      source: "tfe-api",
      "created-at": at(row.created_at),
      "has-changes": row.has_changes,
      "is-destroy": options.destroy === true,
      "refresh-only": options.refresh_only === true,
      refresh: true,
      "auto-apply": options.auto_apply === true,
      "plan-only": row.problem !== null && row.problem !== undefined,
      "target-addrs": options.targets ?? [],
      "replace-addrs": options.replace ?? [],
      "position-in-queue": 0,
      actions: {
        "is-confirmable": isAppliable(row),
        "is-discardable": row.is_discardable && row.may_discard,
        "is-cancelable": isLive && !row.is_confirmation && row.may_cancel,
        "is-force-cancelable": isLive && row.may_cancel,
      },
      permissions: { "can-apply": row.may_apply, "can-cancel": row.may_cancel, "can-discard": row.may_discard },
      "status-timestamps": row.discarded_at ? { "discarded-at": at(row.discarded_at) } : {},
    },
    relationships: {
      plan: to("plans", `plan-${row.id}`),
      apply: to("applies", `apply-${row.id}`),
      workspace: to("workspaces", short("ws", row.module_id)),
      ...(row.checks ? { "policy-checks": { data: [{ type: "policy-checks", id: `polchk-${row.id}` }] } } : {}),
    },
  };
}

/** A plan or an apply, with the address of its log. */
async function part(caller: Caller, row: Row, kind: "plan" | "apply"): Promise<Resource> {
  const isPlan = kind === "plan";
  const known = STATUSES[isPlan ? row.status : row.apply_status]?.[kind][1];
  const count = row.summary?.counts ?? row.summary ?? {};
  return {
    id: `${kind}-${row.id}`,
    type: isPlan ? "plans" : "applies",
    attributes: {
      status: known ?? (isAppliable(row) || isHeld(row) || !OVER.includes(row.status) ? "pending" : "unreachable"),
      "log-read-url": await caller.link("logs", `${row.id}:${kind}`),
      "resource-additions": count.create ?? 0,
      "resource-changes": count.update ?? 0,
      "resource-destructions": count.delete ?? 0,
      ...(isPlan ? { "has-changes": row.has_changes } : {}),
    },
  };
}

const rowOf = (caller: Caller, id: string) => caller.call("terminal_run", { p_run: id });

export async function read(caller: Caller, url: URL, id: string): Promise<Response> {
  const row = await rowOf(caller, id);
  const wanted = (url.searchParams.get("include") ?? "").split(",").filter(Boolean);
  // Checks are a part of the plan here.
  const known = wanted.filter((name) => name !== "task_stages");
  const included = await Promise.all(known.map(async (name) => {
    if (name === "workspace") return workspace(await byId(caller, row.module_id));
    if (name === "plan" || name === "apply") return await part(caller, row, name);
    return refuse(400, `Runs have no "${name}" here.`, "Invalid include parameter");
  }));
  return one(run(row), included);
}

export const runsOf = async (caller: Caller, { id }: Row) =>
  page((await caller.call<Row[]>("terminal_runs", { p_module: id })).map(run));
export const readPart = async (caller: Caller, kind: "plan" | "apply", id: string) =>
  one(await part(caller, await rowOf(caller, id), kind));

/** Programs pause for half a second or more after an empty answer: one that waits for the next lines brings them sooner. */
const PAUSES_MS = [100, 200, 400, 800, 1600];

/** A piece of a log, for anyone who has its address; the database asks again whether its caller may read it. */
export async function log(url: URL, base: string, text: string): Promise<Response> {
  const [[id, kind], caller] = await linked(text, "logs", base);
  const args = {
    p_run: id,
    p_is_apply: kind === "apply",
    p_url: dashboardUrl() ?? "",
    p_offset: Number(url.searchParams.get("offset")) || 0,
    p_limit: Math.min(Number(url.searchParams.get("limit")) || MOST_LOG, MOST_LOG),
  };
  let body = await caller.call<string | null>("terminal_log", args);
  for (const pause of PAUSES_MS) {
    if (body !== "") break;
    await new Promise((resolve) => setTimeout(resolve, pause));
    body = await caller.call<string | null>("terminal_log", args);
  }
  const headers = { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" };
  return new Response(Uint8Array.fromBase64(body ?? ""), { headers });
}

// ---------------------------------------------------------------- policy checks

/** All sets that a plan failed and that somebody may override, as one check; the log of the plan has all others. */
async function checked(caller: Caller, id: string): Promise<Row> {
  const row = await rowOf(caller, id);
  return row.checks ? row : refuse(404, "The run has no policy check that waits.", "Its plan's log has all checks.");
}

/** Everybody may wait for an override: the database decides who gives it. */
export async function readCheck(caller: Caller, id: string): Promise<Response> {
  const isWaiting = isHeld(await checked(caller, id));
  const attributes = {
    status: isWaiting ? "soft_failed" : "passed",
    scope: "organization",
    actions: { "is-overridable": isWaiting },
    permissions: { "can-override": true },
  };
  return one({ id: `polchk-${id}`, type: "policy-checks", attributes });
}

async function pageOf(caller: Caller, row: Row): Promise<string> {
  const { organization } = await byId(caller, row.module_id);
  return `${dashboardUrl() ?? ""}/o/${organization}/jobs/${row.number}`;
}

export async function checkOutput(caller: Caller, id: string): Promise<Response> {
  const row = await checked(caller, id);
  const lines = row.checks.map(({ name, text, overridden_by, reason }: Row) =>
    `${name}: ${text}${overridden_by ? ` Overridden by ${overridden_by}. ${reason}` : ""}`);
  if (isHeld(row)) lines.push(`Needs an override with a reason: open ${await pageOf(caller, row)}`);
  return new Response(lines.join("\n"), { headers: { "content-type": "text/plain; charset=utf-8" } });
}

export async function override(caller: Caller, id: string): Promise<Response> {
  const row = await checked(caller, id);
  refuse(422, "An override needs a reason.", `Override the check on its page: ${await pageOf(caller, row)}`);
}

// ---------------------------------------------------------------- uploads

export async function startUpload(caller: Caller, { attributes }: Given, { id }: Row): Promise<Response> {
  if (attributes["auto-queue-runs"] !== false) {
    refuse(422, "An upload starts no run here.", "Send auto-queue-runs: false, then create the run.");
  }
  const made = await caller.call("start_upload", { p_module: id });
  const url = await caller.link("uploads", `${id}:${made.id}`);
  return api({ data: version(made.id, "pending", url) }, 201);
}

const version = (id: string, status: string, url?: string): Resource => ({
  id: `cv-${id}`,
  type: "configuration-versions",
  attributes: { status, source: "tfe-api", ...(url ? { "upload-url": url } : {}) },
});

export async function readUpload(caller: Caller, id: string): Promise<Response> {
  const { is_complete } = await caller.call("upload_status", { p_upload: id });
  return one(version(id, is_complete ? "uploaded" : "pending"));
}

export async function upload(http: Request, base: string, text: string): Promise<Response> {
  const [[module, id], caller] = await linked(text, "uploads", base);
  const type = http.headers.get("content-type") ?? "";
  if (!/^(application\/(octet-stream|x-gzip|gzip|x-tar)|$)/.test(type)) {
    refuse(415, `The content type "${type}" is not an archive's.`, "Send application/octet-stream.");
  }
  const body = await readBytes(http, MOST_PACKED)
    .catch(() => refuse(413, "The archive is too large.", `At most ${MOST_PACKED} bytes, packed; see .terraformignore.`));
  await checkArchive(body);
  await caller.call("upload_source", { p_module: module, p_body_base64: body.toBase64(), p_sha256: await digest(body), p_upload: id });
  return new Response(null, { status: 200 });
}

// ---------------------------------------------------------------- acts

/** Attributes of a run, as options of a plan. */
const OPTIONS: Record<string, string> = {
  "auto-apply": "auto_apply",
  "is-destroy": "destroy",
  "refresh-only": "refresh_only",
  "target-addrs": "targets",
  "replace-addrs": "replace",
  message: "reason",
};
/** Options of a run that no job here has. */
const REFUSED: Record<string, (value: unknown) => boolean> = {
  refresh: (value) => value === false,
  "invoke-action-addrs": (value) => Array.isArray(value) && value.length > 0,
  "policy-paths": (value) => Array.isArray(value) && value.length > 0,
  "allow-config-generation": (value) => value === true,
  "terraform-version": (value) => Boolean(value),
};

export async function create(caller: Caller, { attributes, relationships }: Given): Promise<Response> {
  const refused = Object.keys(REFUSED).filter((name) => REFUSED[name](attributes[name]));
  if (refused.length) refuse(422, `A run has no ${refused.join(", ")} here.`, "Leave it out; docs/cloud-block.md lists what there is.");
  const row = await byId(caller, String(relationships.workspace?.data?.id ?? "").replace(/^ws-/, ""));
  const upload = String(relationships["configuration-version"]?.data?.id ?? "").replace(/^cv-/, "");
  if (!upload && !row.has_code) {
    refuse(422, "A run of this workspace needs a configuration version: the module has no code here.", "Upload the code, then create the run.");
  }
  const options = Object.fromEntries(
    Object.entries(OPTIONS).filter(([name]) => ![undefined, null, false, ""].includes(attributes[name]))
      .map(([name, option]) => [option, attributes[name]]),
  );
  const given: [string, unknown][] = (attributes.variables ?? []).map(({ key, value }: Row) => [key, literal(value)]);
  const made = await caller.call("enqueue_job", {
    p_org: row.org_id,
    p_type: "PLAN",
    p_module: row.id,
    p_options: {
      ...options,
      ...(upload ? { upload_id: upload } : {}),
      ...(given.length ? { variables: Object.fromEntries(given) } : {}),
    },
  });
  return api({ data: run(await rowOf(caller, made.id)) }, 201);
}

/** The lines that the programs print at once: why the run does not begin. */
export async function events(caller: Caller, id: string): Promise<Response> {
  const row = await rowOf(caller, id);
  if (row.status !== "QUEUED") return page([]);
  const why = await caller.call("explain_queue", { p_job: id });
  if (why.claimable || why.status !== "QUEUED") return page([]);
  const attributes = { action: "changed_task_enforcements", description: `${why.summary} ${why.help}`, "created-at": at(row.created_at) };
  return page([{ id: `re-${id}`, type: "run-events", attributes }]);
}

type Act = (caller: Caller, row: Row, comment: string) => Promise<unknown>;

/** Applies a plan: a plan that waits is confirmed, another gets its apply, which waits for approvals where they are needed. */
const apply: Act = async (caller, row, comment) => {
  if (row.is_confirmation) return await caller.call("approve_job", { p_job: row.apply_id, p_decision: "approve", p_comment: comment });
  if (!isAppliable(row)) refuse(409, "The run cannot be applied.", row.problem ?? `It is ${statusOf(row)}.`);
  const module = await byId(caller, row.module_id);
  await caller.call("enqueue_job", {
    p_org: module.org_id,
    p_type: row.options?.destroy ? "DESTROY" : "APPLY",
    p_module: row.module_id,
    p_options: { plan_job_id: row.id },
  });
};
const discard: Act = (caller, row, comment) =>
  caller.call("approve_job", { p_job: row.apply_id ?? row.id, p_decision: "reject", p_comment: comment });
const stop = (kind: string): Act => (caller, row, comment) =>
  caller.call("cancel_job", { p_job: row.apply_id ?? row.id, p_kind: kind, p_reason: comment || "Cancelled in a terminal." });

const ACTS: Record<string, Act> = { apply, discard, cancel: stop("GRACEFUL"), "force-cancel": stop("KILL") };

export async function act(caller: Caller, { attributes }: Given, id: string, name: string): Promise<Response> {
  await ACTS[name](caller, await rowOf(caller, id), String(attributes.comment ?? ""));
  return nothing(202);
}
