/** Organisations, projects, workspaces, their locks and their variables. */

import { type Caller, type Given, type Row } from "./callers.ts";
import { api, at, nothing, one, page, refuse, type Resource, short, to } from "./documents.ts";
import { literal } from "./literals.ts";

export const pathOf = (name: string) => name.replaceAll(".", "/");
const nameOf = (path: string) => path.replaceAll("/", ".");
const groupsOf = (row: Row): string[] => row.group_path.split("/");

/** The permissions of the caller at a workspace, by the verb that each takes. */
const PERMISSIONS: Record<string, string> = {
  "can-update": "module.write",
  "can-destroy": "module.delete",
  "can-force-delete": "module.delete",
  "can-queue-run": "job.plan",
  "can-queue-apply": "job.apply",
  "can-queue-destroy": "job.apply",
  "can-lock": "module.lock",
  "can-unlock": "module.lock",
  "can-force-unlock": "module.lock",
  "can-read-settings": "module.read",
  "can-read-variable": "module.read",
  "can-update-variable": "variable.write",
  "can-read-state-versions": "state.text",
  "can-create-state-versions": "state.write",
};
/** The settings of every workspace here; another value is refused by name. */
const FIXED: Record<string, unknown> = {
  "execution-mode": "remote",
  operations: true,
  "working-directory": "",
  "vcs-repo": null,
  "agent-pool-id": null,
  "allow-destroy-plan": true,
  "speculative-enabled": true,
  // Without the name of HashiCorp's product in our answers, programs print the log as it comes all the same.
  "structured-run-output-enabled": true,
  "file-triggers-enabled": true,
  "trigger-prefixes": [],
  "trigger-patterns": [],
  "queue-all-runs": true,
  "auto-apply-run-trigger": false,
  "assessments-enabled": false,
  "auto-destroy-at": null,
  "auto-destroy-activity-duration": null,
  "global-remote-state": false,
};
const SETTABLE: Record<string, string> = { description: "description", "auto-apply": "auto_apply" };

export function workspace(row: Row): Resource {
  const allowed = Object.entries(PERMISSIONS).map(([name, verb]) => [name, row.verbs.includes(verb)]);
  return {
    id: short("ws", row.id),
    type: "workspaces",
    attributes: {
      ...FIXED,
      name: nameOf(row.path),
      description: row.description,
      "auto-apply": row.auto_apply,
      "terraform-version": row.engine_version ?? "latest",
      locked: row.lock !== null,
      "tag-names": groupsOf(row),
      "created-at": at(row.created_at),
      "updated-at": at(row.updated_at),
      permissions: Object.fromEntries(allowed),
      actions: { "is-destroyable": true },
    },
    relationships: {
      organization: to("organizations", row.organization),
      project: to("projects", short("prj", row.group_id)),
      ...(row.run_id ? { "current-run": to("runs", `run-${row.run_id}`) } : {}),
    },
  };
}

/** An organisation with its groups. */
const about = (caller: Caller, slug: string) => find(caller, { p_slug: slug, p_path: "" });

interface Found {
  organization: { id: string; slug: string; name: string };
  groups: { id: string; path: string }[];
  workspaces: Row[];
  total: number;
}

const find = (caller: Caller, args: Row) => caller.call<Found>("terminal_workspaces", args);

function only(found: Found): Row {
  return found.workspaces[0] ?? refuse(404, "There is no such workspace.", "Or the token does not reach it.");
}

export const byName = async (caller: Caller, org: string, name: string) =>
  only(await find(caller, { p_slug: org, p_path: pathOf(name) }));
/** By its whole id, or the first digits of it. */
export const byId = async (caller: Caller, id: string) =>
  only(await find(caller, { p_slug: null, p_module: id.replaceAll("-", "") }));
const again = async (caller: Caller, { id }: Row) => one(workspace(await byId(caller, id)));

export async function list(caller: Caller, url: URL, org: string): Promise<Response> {
  const query = (name: string) => url.searchParams.get(name) ?? "";
  for (const name of url.searchParams.keys()) {
    if (!/^(page\[(number|size)\]|search\[(name|tags)\]|filter\[project\]\[id\]|include)$/.test(name)) {
      refuse(422, `The filter "${name}" is not served.`, "Use search[name], search[tags] or filter[project][id].");
    }
  }
  const number = Number(query("page[number]") || 1);
  const group = query("filter[project][id]").replace(/^prj-/, "") || null;
  const tags = query("search[tags]").split(",").map((tag) => tag.trim()).filter(Boolean);
  const words = query("search[name]");
  const found = await find(caller, { p_slug: org, p_search: words, p_tags: tags, p_group: group, p_page: number });
  return page(found.workspaces.map(workspace), found.total, number);
}

/** A tag is the name of a group above the module: the path has it, or it is refused. */
function checkTags(path: string[], given: Row[]): void {
  const other = given.map((tag) => tag.attributes?.name ?? tag.name ?? tag.id).filter((name) => !path.includes(name));
  if (other.length) {
    refuse(
      422,
      `A tag is the name of a group, and "${path.join(".")}" is not in: ${other.join(", ")}.`,
      "Begin the workspace's name with the group: group.module.",
    );
  }
}

function checkFixed(attributes: Row): void {
  for (const [name, value] of Object.entries({ ...FIXED, "terraform-version": "latest" })) {
    if (![undefined, null, ""].includes(attributes[name]) && String(attributes[name]) !== String(value)) {
      refuse(422, `${name} is not set here.`, `It is ${JSON.stringify(value)}; the module's page has its settings.`);
    }
  }
}

const settings = (attributes: Row) =>
  Object.fromEntries(
    Object.entries(SETTABLE).filter(([name]) => name in attributes)
      .map(([name, field]) => [field, attributes[name]]),
  );

export async function create(caller: Caller, { attributes, relationships }: Given, org: string): Promise<Response> {
  const path = String(attributes.name ?? "").split(".");
  if (path.length < 2) {
    refuse(422, "A workspace is named after its module: group.module.", "Put the group before the name, with a dot.");
  }
  if (relationships["tag-bindings"]?.data?.length) {
    refuse(422, "Tags with values are not set here.", "A tag is the name of a group above the module.");
  }
  checkTags(path.slice(0, -1), [...(attributes.tags ?? []), ...(relationships.tags?.data ?? [])]);
  checkFixed(attributes);
  const { organization } = await about(caller, org);
  const group = path.slice(0, -1).join("/");
  const verbs = await caller.call<string[]>("my_verbs", { p_org: organization.id, p_path: group });
  // It has no other code than what is sent; who may allow that, allows it by making it here.
  const spec = { ...settings(attributes), backend: "runyard", can_apply_uploads: verbs.includes("module.guard") };
  const made = await caller.call("create_module", {
    p_org: organization.id,
    p_group_path: group,
    p_name: path.at(-1),
    p_spec: spec,
  });
  return api({ data: workspace(await byId(caller, made.id)) }, 201);
}

export async function update(caller: Caller, { attributes }: Given, row: Row): Promise<Response> {
  checkFixed({ ...attributes, ...(attributes["terraform-version"] === row.engine_version ? { "terraform-version": "latest" } : {}) });
  if ((attributes.name ?? nameOf(row.path)) !== nameOf(row.path)) refuse(422, "A workspace keeps its name.");
  const spec = settings(attributes);
  if (Object.keys(spec).length) await caller.call("update_module", { p_module: row.id, p_spec: spec });
  return await again(caller, row);
}

export function tag({ list }: Given, row: Row): Response {
  checkTags(groupsOf(row), list);
  return nothing();
}

export async function remove(caller: Caller, row: Row, isSafe: boolean): Promise<Response> {
  const { total } = await caller.call("state_resources", { p_module: row.id });
  if (isSafe && total > 0) refuse(409, `The workspace has ${total} resources.`, "Destroy them first.");
  await caller.call("delete_module", { p_module: row.id, p_confirm_name: row.name });
  return nothing();
}

export async function lock(caller: Caller, { attributes }: Given, row: Row, act: string): Promise<Response> {
  if (act === "lock") {
    await caller.call("lock_module", { p_module: row.id, p_reason: attributes.reason || "Locked from a terminal" });
  } else await caller.call("unlock_module", { p_module: row.id, p_is_own: act === "unlock" });
  return await again(caller, row);
}

// ---------------------------------------------------------------- organisations and projects

const organization = (row: Row): Resource => ({
  id: row.slug,
  type: "organizations",
  attributes: { name: row.slug, "external-id": row.id, permissions: { "can-create-workspace": true } },
});

export const organizations = async (caller: Caller) =>
  page((await caller.call<Row[]>("my_organizations")).map(organization));
export const organizationNamed = async (caller: Caller, slug: string) =>
  one(organization((await about(caller, slug)).organization));

const project = (org: string, row: Row): Resource => ({
  id: short("prj", row.id),
  type: "projects",
  attributes: { name: nameOf(row.path) },
  relationships: { organization: to("organizations", org) },
});

export async function projects(caller: Caller, url: URL, org: string): Promise<Response> {
  const wanted = url.searchParams.get("filter[names]")?.split(",").map(pathOf);
  const { groups } = await about(caller, org);
  return page(groups.filter((row) => !wanted || wanted.includes(row.path)).map((row) => project(org, row)));
}

async function groupOf(caller: Caller, id: string): Promise<[string, Row]> {
  const { organization, groups } = await find(caller, { p_slug: null, p_path: "", p_group: id });
  const found = groups.find((row) => short("prj", row.id) === `prj-${id}`);
  return [organization.slug, found ?? refuse(404, "There is no such project.")];
}

export const readProject = async (caller: Caller, id: string) => one(project(...await groupOf(caller, id)));

export async function removeProject(caller: Caller, id: string): Promise<Response> {
  await caller.call("delete_group", { p_group: (await groupOf(caller, id))[1].id });
  return nothing();
}

export async function createProject(caller: Caller, { attributes }: Given, org: string): Promise<Response> {
  const { organization } = await about(caller, org);
  const path = pathOf(String(attributes.name ?? ""));
  return api({ data: project(org, await caller.call("upsert_group", { p_org: organization.id, p_path: path })) }, 201);
}

// ---------------------------------------------------------------- variables

const KINDS: Record<string, string> = { terraform: "input", env: "env" };

/** Each change of a variable is a row of its own: what stays is its kind and its name. */
const variableId = (row: Row) => `var-${row.kind}-${row.name}`;

function variable(row: Row, workspace: Row): Resource {
  const isText = typeof row.value === "string";
  return {
    id: variableId(row),
    type: "vars",
    attributes: {
      key: row.name,
      value: row.key_id ? null : isText ? row.value : JSON.stringify(row.value),
      category: row.kind === "env" ? "env" : "terraform",
      sensitive: row.key_id !== null,
      hcl: !isText && row.value !== null,
      description: row.description ?? "",
      "version-id": String(row.version),
    },
    relationships: { configurable: to("workspaces", short("ws", workspace.id)) },
  };
}

const rowsOf = (caller: Caller, row: Row) =>
  caller.call<Row[]>("list_variables", { p_org: row.org_id, p_path: row.path });

async function variableOf(caller: Caller, row: Row, id: string): Promise<Row> {
  const found = (await rowsOf(caller, row)).find((each) => variableId(each) === `var-${id}`);
  return found ?? refuse(404, "There is no such variable.");
}

export const variables = async (caller: Caller, row: Row) =>
  page((await rowsOf(caller, row)).map((each) => variable(each, row)));

export const readVariable = async (caller: Caller, row: Row, id: string) =>
  one(variable(await variableOf(caller, row, id), row));

export async function removeVariable(caller: Caller, row: Row, id: string): Promise<Response> {
  await caller.call("remove_variable", { p_variable: (await variableOf(caller, row, id)).id });
  return nothing();
}

export async function setVariable(caller: Caller, { attributes: new_ }: Given, row: Row, old?: string): Promise<Response> {
  const before = old === undefined ? {} : variable(await variableOf(caller, row, old), row).attributes;
  const { key, value, category, hcl, sensitive } = { ...before, ...new_ } as Row;
  if (sensitive) {
    refuse(422, "A sensitive variable is sealed on your machine.", "Use: runyard variables set --sealed, or the dashboard.");
  }
  const one_ = { kind: KINDS[category ?? "terraform"] ?? category, name: key, value: hcl ? literal(value) : value };
  const id = variableId(one_).slice("var-".length);
  if (id !== (old ?? id)) refuse(422, "A variable keeps its name and its category.", "Remove it, and create another one.");
  await caller.call("set_variables", { p_org: row.org_id, p_path: row.path, p_variables: [one_] });
  return await readVariable(caller, row, id);
}
