/** State versions and outputs. A state's text is for those who may read it; others see outputs that are not sensitive. */

import { createHash } from "node:crypto";
import { type Caller, type Given, linked, type Row } from "./callers.ts";
import { api, at, one, page, refuse, type Resource } from "./documents.ts";
import { byId } from "./workspaces.ts";

async function version(caller: Caller, module: string, row: Row): Promise<Resource> {
  return {
    id: `sv-${module}-${row.serial}`,
    type: "state-versions",
    attributes: {
      serial: row.serial,
      size: row.size,
      status: "finalized",
      "created-at": at(row.created_at ?? new Date().toISOString()),
      "resources-processed": true,
      "hosted-state-download-url": await caller.link("states", `${module}:${row.serial}`),
    },
  };
}

/** The versions of a state, for those who may read their text. */
async function versions(caller: Caller, workspace: Row): Promise<Row[]> {
  if (!workspace.verbs.includes("state.text") || !workspace.has_state) {
    refuse(404, "There is no state that you may read.", "Reading the text of a state takes state.text.");
  }
  return (await caller.call("state_info", { p_module: workspace.id })).versions;
}

export const current = async (caller: Caller, workspace: Row) =>
  one(await version(caller, workspace.id, (await versions(caller, workspace))[0]));

export async function list(caller: Caller, workspace: Row): Promise<Response> {
  const rows = await versions(caller, workspace);
  return page(await Promise.all(rows.map((row) => version(caller, workspace.id, row))));
}

export async function read(caller: Caller, module: string, serial: string): Promise<Response> {
  const row = (await versions(caller, await byId(caller, module))).find((each) => String(each.serial) === serial);
  return one(await version(caller, module, row ?? refuse(404, "There is no such version.", "The newest 100 are kept.")));
}

export async function download(base: string, text: string): Promise<Response> {
  const [[module, serial], caller] = await linked(text, "states", base);
  const { body } = await caller.call("state_version", { p_module: module, p_serial: serial });
  return new Response(body, { headers: { "content-type": "application/json", "cache-control": "no-store" } });
}

function base64(text: unknown): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.fromBase64(String(text));
  } catch {
    refuse(422, "The state is not base64.");
  }
}

export async function create(caller: Caller, { attributes }: Given, { id }: Row): Promise<Response> {
  // The programs understand exactly these words, and send the state with the next request.
  if (!attributes.state) refuse(422, "param is missing or the value is empty: state");
  const bytes = base64(attributes.state);
  const md5 = createHash("md5").update(bytes).digest("hex");
  if (md5 !== attributes.md5) refuse(422, "The state is not what its MD5 says.", "Send it again.");
  const body = new TextDecoder().decode(bytes);
  const made = await caller.call("push_state", { p_module: id, p_body: body });
  return api({ data: await version(caller, id, { ...made, size: bytes.length }) }, 201);
}

/** The type of a value, as the programs write types. */
function typeOf(value: unknown): unknown {
  if (value === null) return "dynamic";
  if (Array.isArray(value)) return ["tuple", value.map(typeOf)];
  if (typeof value !== "object") return typeof value === "boolean" ? "bool" : typeof value;
  return ["object", Object.fromEntries(Object.entries(value as Row).map(([name, each]) => [name, typeOf(each)]))];
}

function output(module: string, name: string, { value, sensitive }: Row): Resource {
  const type = typeOf(value);
  return {
    id: `wsout-${module}-${name}`,
    type: "state-version-outputs",
    attributes: { name, sensitive, value, type: Array.isArray(type) ? type[0] : type, "detailed-type": type },
  };
}

/** The outputs; sensitive ones with their values only for those who may read the state. */
async function outputs(caller: Caller, workspace: Row): Promise<Resource[]> {
  const module = workspace.id;
  const { serial, outputs: shown } = await caller.call("state_resources", { p_module: module });
  const known: Row = { ...shown };
  const isMasked = Object.values(shown as Row).some((each) => each.sensitive);
  if (isMasked && workspace.verbs.includes("state.text")) {
    const { body } = await caller.call("state_version", { p_module: module, p_serial: serial });
    for (const [name, each] of Object.entries(JSON.parse(body).outputs as Row)) {
      known[name] = { value: each.value, sensitive: each.sensitive ?? false };
    }
  }
  return Object.entries(known).map(([name, each]) => output(module, name, each));
}

export const outputsOf = async (caller: Caller, workspace: Row) => page(await outputs(caller, workspace));

export async function readOutput(caller: Caller, module: string, name: string): Promise<Response> {
  const found = (await outputs(caller, await byId(caller, module))).find((each) => each.attributes.name === name);
  return one(found ?? refuse(404, "There is no such output."));
}
