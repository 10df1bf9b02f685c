/** A GitHub App of an organisation: created from GitHub's code, and its tokens for runners. */

import { z } from "zod";
import { asCaller } from "../_shared/calling.ts";
import { digest } from "../_shared/codes.ts";
import { call, limit } from "../_shared/database.ts";
import { askGithub, type Installation, installationToken } from "../_shared/github_app.ts";
import { addressOf, Answer, jobAttempt, json, parse, readBody } from "../_shared/http.ts";
import { open, seal } from "../_shared/sealing.ts";

const CODES_PER_ADDRESS = 20;
const codeRequest = z.strictObject({
  app: z.uuid(),
  code: z.string().regex(/^[A-Za-z0-9_-]{1,200}$/),
  state: z.string().max(200),
});
const tokenRequest = z.strictObject({ job: jobAttempt });

type Pending = { org_id: string; api_url: string };

function text(value: unknown, name: string): string {
  if (typeof value === "string" && value) return value;
  throw new Answer(502, { code: "RY502", message: `GitHub's answer has no ${name}.` });
}

/** Exchanges GitHub's code for the app's key, once, for the member who began it; returns the page that installs it. */
export async function completeApp(request: Request): Promise<Response> {
  await limit([[`git:app:${addressOf(request)}`, CODES_PER_ADDRESS]]);
  const { app, code, state } = parse(codeRequest, await readBody(request));
  const p_state_hash = await digest(state);
  const which = { p_app: app, p_state_hash };
  const pending = await asCaller<Pending>(request, "pending_git_app", which);
  const made = await askGithub(`${pending.api_url}/app-manifests/${code}/conversions`, {});
  const p_spec = {
    number: Number(made.id),
    slug: text(made.slug, "slug"),
    html_url: text(made.html_url, "html_url"),
    webhook_secret: await seal(pending.org_id, text(made.webhook_secret, "webhook_secret")),
    private_key: await seal(pending.org_id, text(made.pem, "pem")),
  };
  await call("complete_git_app", { ...which, p_spec });
  return json(200, { install_url: `${p_spec.html_url}/installations/new` });
}

/** A token to read one repository, for the runner whose attempt holds the lease. */
export async function tokenForJob(request: Request): Promise<Response> {
  const { job } = parse(tokenRequest, await readBody(request));
  const args = { p_job: job.id, p_attempt: job.attempt };
  const said = await asCaller<unknown>(request, "worker_repository", args);
  const found = typeof said === "string"
    ? await call<Installation & { org_id: string; private_key: string } | null>(
      "git_installation",
      { p_connection: said },
    )
    : null;
  if (!found) return json(200, { token: null });
  const { org_id, private_key, ...which } = found;
  const given = await installationToken(org_id, which, await open(org_id, private_key), {
    contents: "read",
  });
  return json(200, { username: "x-access-token", ...given });
}
