/**
 * Serves Terraform and OpenTofu: `cloud {}` and `tofu login` for people, and `terraform_remote_state` for jobs. The database
 * decides; this function only translates.
 */

import { publicUrl } from "../_shared/env.ts";
import { Answer, bearerOf, isStorable, json } from "../_shared/http.ts";
import { verifyEngine } from "../_shared/tokens.ts";
import { type Caller, callerOf, given, type Given, type Row } from "./callers.ts";
import { JSON_API, nothing, one, page, refuse } from "./documents.ts";
import { authorize, loginService, token } from "./login.ts";
import { JOB_ROUTES } from "./outputs.ts";
import * as runs from "./runs.ts";
import * as states from "./states.ts";
import * as workspaces from "./workspaces.ts";

const SERVICES = ["tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"];

/** Says what is served, for hosts that send /.well-known/terraform.json here. */
const discovery = (base: string) =>
  json(200, {
    ...Object.fromEntries(SERVICES.map((name) => [name, `${base}/api/v2/`])),
    "login.v1": loginService(base),
  });

type Answered = Promise<Response> | Response;
type Open = (http: Request, url: URL, base: string, ...parts: string[]) => Answered;
/** A route of a caller: with the query, the document that was sent, and what the path names. `{n}` is a number there. */
type Route = (caller: Caller, url: URL, sent: Given, ...parts: string[]) => Answered;

/** Without a caller, or with one in the address. */
const OPEN: [string, string, Open][] = [
  ["GET", "/.well-known/terraform.json", (_http, _url, base) => discovery(base)],
  ["GET", "/api/v2/ping", () => nothing()],
  ["GET", "/oauth/authorize", authorize],
  ["POST", "/oauth/token", token],
  ["PUT", "/api/v2/uploads/{}", (http, _url, base, text) => runs.upload(http, base, text)],
  ["GET", "/api/v2/logs/{}", (_http, url, base, text) => runs.log(url, base, text)],
  ["GET", "/api/v2/states/{}", (_http, _url, base, text) => states.download(base, text)],
];

const ROUTES: [string, string, Route][] = [
  ["GET", "account/details", (caller) =>
    one({ id: String(caller.claims.sub), type: "users", attributes: { username: caller.claims.email ?? "service account" } })],
  ["GET", "organizations", (caller) => workspaces.organizations(caller)],
  ["GET", "organizations/{}", (caller, _url, _sent, org) => workspaces.organizationNamed(caller, org)],
  ["GET", "organizations/{}/entitlement-set", async (caller, _url, _sent, org) => {
    await workspaces.organizationNamed(caller, org);
    const attributes = { operations: true, "state-storage": true, "private-module-registry": false };
    return one({ id: org, type: "entitlement-sets", attributes });
  }],
  ["GET", "organizations/{}/runs/queue", async (caller, _url, _sent, org) => {
    await workspaces.organizationNamed(caller, org);
    return page([]);
  }],
  ["GET", "organizations/{}/capacity", async (caller, _url, _sent, org) => {
    await workspaces.organizationNamed(caller, org);
    return one({ id: org, type: "organization-capacity", attributes: { pending: 0, running: 0 } });
  }],
  ["GET", "organizations/{}/projects", (caller, url, _sent, org) => workspaces.projects(caller, url, org)],
  ["POST", "organizations/{}/projects", (caller, _url, sent, org) => workspaces.createProject(caller, sent, org)],
  ["GET", "projects/prj-{id}", (caller, _url, _sent, id) => workspaces.readProject(caller, id)],
  ["DELETE", "projects/prj-{id}", (caller, _url, _sent, id) => workspaces.removeProject(caller, id)],
  ["GET", "organizations/{}/workspaces", (caller, url, _sent, org) => workspaces.list(caller, url, org)],
  ["POST", "organizations/{}/workspaces", (caller, _url, sent, org) => workspaces.create(caller, sent, org)],
  ["GET", "organizations/{}/workspaces/{}", async (caller, _url, _sent, org, name) =>
    one(workspaces.workspace(await workspaces.byName(caller, org, name)))],
  ["DELETE", "organizations/{}/workspaces/{}", async (caller, _url, _sent, org, name) =>
    await workspaces.remove(caller, await workspaces.byName(caller, org, name), false)],
  ["POST", "organizations/{}/workspaces/{}/actions/safe-delete", async (caller, _url, _sent, org, name) =>
    await workspaces.remove(caller, await workspaces.byName(caller, org, name), true)],
  ["GET", "configuration-versions/cv-{uuid}", (caller, _url, _sent, id) => runs.readUpload(caller, id)],
  ["POST", "runs", (caller, _url, sent) => runs.create(caller, sent)],
  ["GET", "runs/run-{n}", (caller, url, _sent, id) => runs.read(caller, url, id)],
  ["GET", "runs/run-{n}/run-events", (caller, _url, _sent, id) => runs.events(caller, id)],
  ...["apply", "discard", "cancel", "force-cancel"].map((act): [string, string, Route] => [
    "POST", `runs/run-{n}/actions/${act}`, (caller, _url, sent, id) => runs.act(caller, sent, id, act)]),
  ["GET", "plans/plan-{n}", (caller, _url, _sent, id) => runs.readPart(caller, "plan", id)],
  ["GET", "applies/apply-{n}", (caller, _url, _sent, id) => runs.readPart(caller, "apply", id)],
  ["GET", "policy-checks/polchk-{n}", (caller, _url, _sent, id) => runs.readCheck(caller, id)],
  ["GET", "policy-checks/polchk-{n}/output", (caller, _url, _sent, id) => runs.checkOutput(caller, id)],
  ["POST", "policy-checks/polchk-{n}/actions/override", (caller, _url, _sent, id) => runs.override(caller, id)],
  ["GET", "state-versions/sv-{uuid}-{}", (caller, _url, _sent, id, serial) => states.read(caller, id, serial)],
  ["GET", "state-version-outputs/wsout-{uuid}-{}", (caller, _url, _sent, id, name) => states.readOutput(caller, id, name)],
];

/** The same below one workspace. */
type Below = (caller: Caller, sent: Given, workspace: Row, part: string) => Answered;
const WORKSPACE: [string, string, Below][] = [
  ["GET", "", (_caller, _sent, row) => one(workspaces.workspace(row))],
  ["PATCH", "", (caller, sent, row) => workspaces.update(caller, sent, row)],
  ["DELETE", "", (caller, _sent, row) => workspaces.remove(caller, row, false)],
  ["POST", "/actions/safe-delete", (caller, _sent, row) => workspaces.remove(caller, row, true)],
  ["POST", "/actions/(lock|unlock|force-unlock)", (caller, sent, row, act) => workspaces.lock(caller, sent, row, act)],
  // Others read outputs by a grant: `runyard modules grant`.
  ["GET", "/relationships/remote-state-consumers", () => page([])],
  ["POST", "/relationships/tags", (_caller, sent, row) => workspaces.tag(sent, row)],
  ["GET", "/vars", (caller, _sent, row) => workspaces.variables(caller, row)],
  ["POST", "/vars", (caller, sent, row) => workspaces.setVariable(caller, sent, row)],
  ["GET", "/vars/var-{}", (caller, _sent, row, old) => workspaces.readVariable(caller, row, old)],
  ["PATCH", "/vars/var-{}", (caller, sent, row, old) => workspaces.setVariable(caller, sent, row, old)],
  ["DELETE", "/vars/var-{}", (caller, _sent, row, old) => workspaces.removeVariable(caller, row, old)],
  ["POST", "/configuration-versions", (caller, sent, row) => runs.startUpload(caller, sent, row)],
  ["GET", "/runs", (caller, _sent, row) => runs.runsOf(caller, row)],
  ["GET", "/current-state-version", (caller, _sent, row) => states.current(caller, row)],
  ["GET", "/state-versions", (caller, _sent, row) => states.list(caller, row)],
  ["POST", "/state-versions", (caller, sent, row) => states.create(caller, sent, row)],
  ["GET", "/current-state-version-outputs", (caller, _sent, row) => states.outputsOf(caller, row)],
];
const below = WORKSPACE.map(([method, path, answer]): [string, string, Route] => [
  method, `workspaces/ws-{id}${path}`,
  async (caller, _url, sent, id, part) => await answer(caller, sent, await workspaces.byId(caller, id), part)]);

const PARTS: Record<string, string> = {
  "{}": "([^/]+)",
  "{n}": "([0-9]{1,18})",
  "{id}": "([0-9a-f]{16})",
  "{uuid}": "([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
};

const pattern = (text: string) =>
  new RegExp(`^${text.replaceAll(".", "\\.").replace(/\{\w*\}/g, (part) => PARTS[part])}$`);

const compiled = <T>(routes: [string, string, T][], prefix = "") =>
  routes.map(([method, text, route]): [string, RegExp, T] => [method, pattern(prefix + text), route]);
const OPEN_ROUTES = compiled(OPEN);
const OUTPUT_ROUTES = compiled(JOB_ROUTES, "/api/v2/");
const CALLER_ROUTES = compiled([...ROUTES, ...below], "/api/v2/");

function decodePart(part: string): string {
  try {
    const text = decodeURIComponent(part);
    if (isStorable(text)) return text;
  } catch {
    // Refused below.
  }
  refuse(400, "The path is not UTF-8 text.");
}

function matching<T>(routes: [string, RegExp, T][], method: string, path: string): [T, string[]] | undefined {
  for (const [wanted, pattern, route] of routes) {
    const found = wanted === method && path.match(pattern);
    if (found) return [route, found.slice(1).map(decodePart)];
  }
}

async function answer(http: Request): Promise<Response> {
  const url = new URL(http.url);
  const path = url.pathname.replace(/^(\/functions\/v1)?\/terraform/, "");
  const base = `${publicUrl()}/functions/v1/terraform`;
  const open = matching(OPEN_ROUTES, http.method, path);
  if (open) return await open[0](http, url, base, ...open[1]);
  const job = await verifyEngine(bearerOf(http) ?? "");
  if (job) {
    const [route, parts] = matching(OUTPUT_ROUTES, http.method, path) ?? refuse(404, "A job only reads outputs here.");
    return await route(job, base, ...parts);
  }
  const found = matching(CALLER_ROUTES, http.method, path);
  if (!found) refuse(404, `${http.method} ${path} is not served.`, "docs/cloud-block.md lists what is.");
  const caller = await callerOf(http, base);
  return await found[0](caller, url, await given(http), ...found[1]);
}

export const handler = async (request: Request): Promise<Response> => {
  try {
    return await answer(request);
  } catch (error) {
    if (error instanceof Answer) return json(error.status, asErrors(error), JSON_API);
    console.error(error instanceof Error ? error.message : "unknown error");
    const title = "The function failed; its log says why.";
    return json(500, { errors: [{ status: "500", title, detail: title }] }, JSON_API);
  }
};

/** Shared helpers refuse in the project's shape. */
function asErrors({ status, body }: Answer): Record<string, unknown> {
  const title = String(body.message ?? status);
  return "errors" in body ? body : { errors: [{ status: String(status), title, detail: String(body.hint ?? title) }] };
}
