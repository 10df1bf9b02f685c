/**
 * Serves a job's `terraform_remote_state` with the backend "remote": it reads the outputs of modules that grant them to its
 * own. The database decides, each time, by the attempt that the caller's token names.
 */

import { callAs } from "../_shared/calling.ts";
import { json } from "../_shared/http.ts";
import { type JobClaims, signEngine } from "../_shared/tokens.ts";
import { api, refuse } from "./documents.ts";

interface Outputs {
  id: string;
  path: string;
  exists: boolean;
  state: { serial: number; terraform_version: string };
}

/** Workspaces have no slashes in their names: group.module means group/module. */
async function outputsOf(claims: JobClaims, org: string, workspace: string): Promise<Outputs> {
  const path = workspace.replaceAll(".", "/");
  const args = { p_job: claims.job, p_attempt: claims.att, p_org: org, p_path: path };
  const { status, said } = await callAs(await signEngine(claims), "worker_outputs_get", args);
  if (status < 300 && said) return said as unknown as Outputs;
  const message = [said?.message, said?.hint].filter(Boolean).join(" ");
  if (status === 401) refuse(401, message || "The token is not accepted.");
  // Clients ask again after a 503, and give up after a 403.
  if (isRefusal(status, said?.code)) refuse(403, message);
  refuse(503, message || "The database does not answer.");
}

/** Whether the project refused, with a code of its own; 25006 is a database that is read-only for a while. */
function isRefusal(status: number, code: unknown): boolean {
  return status < 500 && status !== 429 && typeof code === "string" && code !== "25006";
}

type Route = (claims: JobClaims, base: string, ...parts: string[]) => Promise<Response> | Response;

/** The id of a workspace carries where it is: the client asks for its state by the id alone. */
const idOf = (org: string, workspace: string) =>
  `ws-${btoa(`${org}/${workspace}`).replace(/=+$/, "")}`;

function placeOf(id: string): [string, string] {
  try {
    const [org, workspace] = atob(id.slice("ws-".length)).split("/", 2);
    return [org, workspace ?? ""];
  } catch {
    refuse(404, "There is no such workspace.");
  }
}

/** All of them are read. */
export const JOB_ROUTES: [string, string, Route][] = [
  ["GET", "organizations/{}/entitlement-set", (_claims, _base, org) => {
    const attributes = { "state-storage": true, operations: false };
    return api({ data: { id: org, type: "entitlement-sets", attributes } });
  }],
  ["GET", "organizations/{}/workspaces/{}", async (claims, _base, org, workspace) => {
    const found = await outputsOf(claims, org, workspace);
    const attributes = {
      name: workspace,
      operations: false,
      "execution-mode": "local",
      "terraform-version": found.state.terraform_version,
      permissions: { "can-queue-run": false, "can-read-settings": true },
    };
    return api({ data: { id: idOf(org, workspace), type: "workspaces", attributes } });
  }],
  ["GET", "workspaces/(ws-[^/]+)/current-state-version", async (claims, base, id) => {
    const found = await outputsOf(claims, ...placeOf(id));
    if (!found.exists) refuse(404, `${found.path} has no state yet.`);
    const url = `${base}/api/v2/state/${id}`;
    const attributes = { serial: found.state.serial, "hosted-state-download-url": url, status: "finalized" };
    return api({ data: { id: `sv-${found.id}`, type: "state-versions", attributes } });
  }],
  [
    "GET",
    "state/(ws-[^/]+)",
    async (claims, _base, id) => json(200, (await outputsOf(claims, ...placeOf(id))).state),
  ],
];
