/**
 * Serves `terraform_remote_state` with the backend "remote", and nothing more: a job reads the outputs of modules that
 * grant them to its own. The database decides, each time, by the attempt that the caller's token names; this function only
 * translates.
 */

import { callAs } from "../_shared/calling.ts";
import { publicUrl } from "../_shared/env.ts";
import { Answer, bearerOf, isStorable, json } from "../_shared/http.ts";
import { signEngine, verifyEngine } from "../_shared/tokens.ts";

const SERVICES = ["tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"];
const JSON_API = { "content-type": "application/vnd.api+json", "tfp-api-version": "2.6" };

interface Outputs {
  id: string;
  path: string;
  exists: boolean;
  state: { serial: number; terraform_version: string };
}

/** Says what is served, for hosts that send /.well-known/terraform.json here. */
function discovery(base: string): Response {
  return json(200, Object.fromEntries(SERVICES.map((name) => [name, `${base}/api/v2/`])));
}

function refuse(status: number, detail: string): never {
  throw new Answer(status, { errors: [{ status: String(status), title: detail, detail }] });
}

/** Workspaces have no slashes in their names: group.module means group/module. */
async function outputsOf(request: Request, org: string, workspace: string): Promise<Outputs> {
  const token = bearerOf(request);
  if (token === undefined) refuse(401, "A job's token is needed: TF_TOKEN_<host>.");
  const claims = await verifyEngine(token);
  if (claims === undefined) refuse(401, "That is not a token of a job.");
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

type Route = (request: Request, base: string, ...parts: string[]) => Promise<Response> | Response;

const api = (body: unknown) => json(200, body, JSON_API);

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

const ROUTES: [RegExp, Route][] = [
  [/^\/\.well-known\/terraform\.json$/, (_, base) => discovery(base)],
  [/^\/api\/v2\/ping$/, () => new Response(null, { status: 204, headers: JSON_API })],
  [/^\/api\/v2\/organizations\/([^/]+)\/entitlement-set$/, (_request, _base, org) =>
    api({
      data: {
        id: org,
        type: "entitlement-sets",
        attributes: { "state-storage": true, operations: false },
      },
    })],
  [
    /^\/api\/v2\/organizations\/([^/]+)\/workspaces\/([^/]+)$/,
    async (request, _base, org, workspace) => {
      const found = await outputsOf(request, org, workspace);
      const attributes = {
        name: workspace,
        operations: false,
        "execution-mode": "local",
        "terraform-version": found.state.terraform_version,
        permissions: { "can-queue-run": false, "can-read-settings": true },
      };
      return api({ data: { id: idOf(org, workspace), type: "workspaces", attributes } });
    },
  ],
  [/^\/api\/v2\/workspaces\/(ws-[^/]+)\/current-state-version$/, async (request, base, id) => {
    const found = await outputsOf(request, ...placeOf(id));
    if (!found.exists) refuse(404, `${found.path} has no state yet.`);
    const url = `${base}/api/v2/state/${id}`;
    const attributes = {
      serial: found.state.serial,
      "hosted-state-download-url": url,
      status: "finalized",
    };
    return api({ data: { id: `sv-${found.id}`, type: "state-versions", attributes } });
  }],
  [
    /^\/api\/v2\/state\/(ws-[^/]+)$/,
    async (request, _base, id) => json(200, (await outputsOf(request, ...placeOf(id))).state),
  ],
];

function decodePart(part: string): string {
  try {
    const text = decodeURIComponent(part);
    if (isStorable(text)) return text;
  } catch {
    // Refused below.
  }
  refuse(400, "The path is not UTF-8 text.");
}

async function answer(request: Request): Promise<Response> {
  const url = new URL(request.url);
  const path = url.pathname.replace(/^(\/functions\/v1)?\/terraform/, "");
  const base = `${publicUrl()}/functions/v1/terraform`;
  for (const [pattern, route] of ROUTES) {
    const found = path.match(pattern);
    if (found && request.method === "GET") {
      return await route(request, base, ...found.slice(1).map(decodePart));
    }
  }
  refuse(404, "Only outputs are served here, to be read.");
}

export const handler = async (request: Request): Promise<Response> => {
  try {
    return await answer(request);
  } catch (error) {
    if (error instanceof Answer) return json(error.status, error.body, JSON_API);
    console.error(error instanceof Error ? error.message : "unknown error");
    return json(500, {
      errors: [{ status: "500", title: "The function failed; its log says why." }],
    });
  }
};
