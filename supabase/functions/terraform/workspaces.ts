/** Organisations, projects, workspaces, their locks and their variables. */

import { type Caller, type Given, type Row } from "./callers.ts";
import { api, at, nothing, one, page, refuse, type Resource, to } from "./documents.ts";
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
  "structured-run-output-enabled": false,
  "global-remote-state": false,
  "queue-all-runs": false,
};
const SETTABLE: Record<string, string> = { description: "description", "auto-apply": "auto_apply" };

export function workspace(row: Row): Resource {
  const allowed = Object.entries(PERMISSIONS).map(([name, verb]) => [name, row.verbs.includes(verb)]);
  return {
    id: `ws-${row.id}`,
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
      project: to("projects", `prj-${row.group_id}`),
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
export const byId = async (caller: Caller, id: string) =>
  only(await find(caller, { p_slug: null, p_module: id }));
const again = async (caller: Caller, id: string) => one(workspace(await byId(caller, id)));

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
    if ((attributes[name] ?? value) !== value) {
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

export async function update(caller: Caller, { attributes }: Given, id: string): Promise<Response> {
  const row = await byId(caller, id);
  checkFixed({ ...attributes, ...(attributes["terraform-version"] === row.engine_version ? { "terraform-version": "latest" } : {}) });
  if ((attributes.name ?? nameOf(row.path)) !== nameOf(row.path)) refuse(422, "A workspace keeps its name.");
  const spec = settings(attributes);
  if (Object.keys(spec).length) await caller.call("update_module", { p_module: id, p_spec: spec });
  return await again(caller, id);
}

export async function tag(caller: Caller, { list }: Given, id: string): Promise<Response> {
  checkTags(groupsOf(await byId(caller, id)), list);
  return nothing();
}

export async function remove(caller: Caller, row: Row, isSafe: boolean): Promise<Response> {
  const { total } = await caller.call("state_resources", { p_module: row.id });
  if (isSafe && total > 0) refuse(409, `The workspace has ${total} resources.`, "Destroy them first.");
  await caller.call("delete_module", { p_module: row.id, p_confirm_name: row.name });
  return nothing();
}

export async function lock(caller: Caller, { attributes }: Given, id: string, act: string): Promise<Response> {
  if (act === "lock") {
    await caller.call("lock_module", { p_module: id, p_reason: attributes.reason || "Locked from a terminal" });
  } else await caller.call("unlock_module", { p_module: id, p_is_own: act === "unlock" });
  return await again(caller, id);
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
  id: `prj-${row.id}`,
  type: "projects",
  attributes: { name: nameOf(row.path) },
  relationships: { organization: to("organizations", org) },
});

export async function projects(caller: Caller, url: URL, org: string): Promise<Response> {
  const wanted = url.searchParams.get("filter[names]")?.split(",").map(pathOf);
  const { groups } = await about(caller, org);
  return page(groups.filter((row) => !wanted || wanted.includes(row.path)).map((row) => project(org, row)));
}

export async function createProject(caller: Caller, { attributes }: Given, org: string): Promise<Response> {
  const { organization } = await about(caller, org);
  const path = pathOf(String(attributes.name ?? ""));
  return api({ data: project(org, await caller.call("upsert_group", { p_org: organization.id, p_path: path })) }, 201);
}

// ---------------------------------------------------------------- variables

const KINDS: Record<string, string> = { terraform: "input", env: "env" };

function variable(row: Row): Resource {
  const isText = typeof row.value === "string";
  return {
    id: `var-${row.id}`,
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
  };
}

export async function variables(caller: Caller, id: string): Promise<Response> {
  const row = await byId(caller, id);
  const found = await caller.call<Row[]>("list_variables", { p_org: row.org_id, p_path: row.path });
  return page(found.map(variable));
}

export async function setVariable(caller: Caller, { attributes: new_ }: Given, id: string, old?: string): Promise<Response> {
  const row = await byId(caller, id);
  const before = old === undefined ? {} : (await caller.call<Row[]>("list_variables", { p_org: row.org_id, p_path: row.path }))
    .map(variable).find((each) => each.id === `var-${old}`)?.attributes ?? refuse(404, "There is no such variable.");
  const { key, value, category, hcl, sensitive } = { ...before, ...new_ } as Row;
  if (sensitive) {
    refuse(422, "A sensitive variable is sealed on your machine.", "Use: runyard variables set --sealed, or the dashboard.");
  }
  const one_ = { kind: KINDS[category ?? "terraform"] ?? category, name: key, value: hcl ? literal(value) : value };
  await caller.call("set_variables", { p_org: row.org_id, p_path: row.path, p_variables: [one_] });
  const found = await caller.call<Row[]>("list_variables", { p_org: row.org_id, p_path: row.path });
  return one(variable(found.find((each) => each.name === key && each.kind === one_.kind)!));
}
