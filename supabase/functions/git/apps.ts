/** A GitHub App of an organisation: created from GitHub's code, and its tokens for runners. */

import { z } from "zod";
import { callAs } from "../_shared/calling.ts";
import { call, limit } from "../_shared/database.ts";
import { askGithub, type Installation, installationToken } from "../_shared/github_app.ts";
import { addressOf, Answer, bearerOf, json, parse, readBody } from "../_shared/http.ts";
import { open, seal } from "../_shared/sealing.ts";

const CODES_PER_ADDRESS = 20;
const CODE = /^[A-Za-z0-9_-]{1,200}$/;
const tokenRequest = z.strictObject({
  job: z.strictObject({ id: z.int().positive(), attempt: z.int().positive() }),
});

interface Pending {
  org_id: string;
  api_url: string;
}

async function digestOf(text: string): Promise<string> {
  const bytes = new TextEncoder().encode(text);
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

function text(value: unknown, name: string): string {
  if (typeof value === "string" && value) return value;
  throw new Answer(502, { code: "RY502", message: `GitHub's answer has no ${name}.` });
}

/** Exchanges GitHub's code for the app's key, once, for the holder of the state; then redirects to the page that installs it. */
export async function completeApp(request: Request, app: string): Promise<Response> {
  await limit([[`git:app:${addressOf(request)}`, CODES_PER_ADDRESS]]);
  const { searchParams } = new URL(request.url);
  const [code, state] = [searchParams.get("code") ?? "", searchParams.get("state") ?? ""];
  const p_state_hash = await digestOf(state);
  const pending = await call<Pending | null>("pending_git_app", { p_app: app, p_state_hash });
  if (!pending || !CODE.test(code)) {
    throw new Answer(404, {
      code: "RY404",
      message: "There is no such app to create.",
      hint: "Begin again in Settings → Git: a code is valid for an hour, and works once.",
    });
  }
  const made = await askGithub(`${pending.api_url}/app-manifests/${code}/conversions`, {});
  const p_spec = {
    number: Number(made.id),
    slug: text(made.slug, "slug"),
    html_url: text(made.html_url, "html_url"),
    webhook_secret: await seal(pending.org_id, text(made.webhook_secret, "webhook_secret")),
    private_key: await seal(pending.org_id, text(made.pem, "pem")),
  };
  await call("complete_git_app", { p_app: app, p_state_hash, p_spec });
  return new Response(null, {
    status: 302,
    headers: { location: `${p_spec.html_url}/installations/new`, "cache-control": "no-store" },
  });
}

/** A token to read one repository, for the runner whose attempt holds the lease. */
export async function tokenForJob(request: Request): Promise<Response> {
  const { job } = parse(tokenRequest, await readBody(request));
  const args = { p_job: job.id, p_attempt: job.attempt };
  const { status, said } = await callAs(bearerOf(request) ?? "", "worker_repository", args);
  if (status >= 300) {
    throw new Answer(status, said ?? { code: "RY503", message: "The database does not answer." });
  }
  const found = typeof said === "string"
    ? await call<Installation & { org_id: string; private_key: string } | null>(
      "git_installation",
      { p_connection: said },
    )
    : null;
  if (!found) return json(200, { token: null });
  const { org_id, private_key, ...which } = found;
  const given = await installationToken(which, await open(org_id, private_key), {
    contents: "read",
  });
  return json(200, { username: "x-access-token", ...given });
}
