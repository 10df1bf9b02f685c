/** What a delivery says, in the words of the database, whichever provider sent it. */

import type { Provider } from "./signatures.ts";

/** A pull request as far as a plan of it needs to know. */
export interface Pull {
  number: number;
  title: string;
  base: string;
  head_commit: string;
  is_fork: boolean;
  is_draft: boolean;
  is_open: boolean;
  merge_commit?: string;
}

export interface Delivery {
  delivery_id: string;
  event: string;
  action?: string;
  ref?: string;
  before?: string;
  after?: string;
  is_deleted?: boolean;
  sender?: string;
  pull?: Pull;
}

type Json = Record<string, unknown>;

const COMMIT = /^[0-9a-f]{40,64}$/;
const MOST_TEXT = 200;

/** Follows a path through objects; what is not there is undefined. */
function at(body: Json, ...path: string[]): unknown {
  return path.reduce<unknown>(
    (value, name) =>
      typeof value === "object" && value !== null ? (value as Json)[name] : undefined,
    body,
  );
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value ? value.slice(0, MOST_TEXT) : undefined;
}

/** A commit; the zeros by which providers write "none" are none. */
function commit(value: unknown): string | undefined {
  return typeof value === "string" && COMMIT.test(value) && !/^0+$/.test(value) ? value : undefined;
}

function push(body: Json): Partial<Delivery> {
  return {
    event: "push",
    ref: text(body.ref),
    before: commit(body.before),
    after: commit(body.after),
    is_deleted: commit(body.after) === undefined,
    sender: text(at(body, "sender", "login")) ?? text(body.user_username) ?? text(body.user_name),
  };
}

/** GitHub's and Gitea's pull requests have the same shape. */
function pullRequest(body: Json): Partial<Delivery> {
  const pull = at(body, "pull_request") as Json | undefined;
  const head_commit = commit(at(pull ?? {}, "head", "sha"));
  const [base, number] = [text(at(pull ?? {}, "base", "ref")), at(body, "number")];
  const named = {
    event: "pull_request",
    action: text(body.action),
    sender: text(at(body, "sender", "login")),
  };
  if (!pull || !base || !head_commit || !Number.isInteger(number)) return named;
  return {
    ...named,
    pull: {
      number: number as number,
      title: text(pull.title) ?? "",
      base,
      head_commit,
      // A repository that is gone was a fork, too.
      is_fork: at(pull, "head", "repo", "id") === undefined ||
        at(pull, "head", "repo", "id") !== at(pull, "base", "repo", "id"),
      is_draft: pull.draft === true,
      is_open: pull.state === "open",
      merge_commit: pull.merged === true ? commit(pull.merge_commit_sha) : undefined,
    },
  };
}

function mergeRequest(body: Json): Partial<Delivery> {
  const what = (at(body, "object_attributes") ?? {}) as Json;
  const head_commit = commit(at(what, "last_commit", "id"));
  const [base, number] = [text(what.target_branch), what.iid];
  const named = {
    event: "pull_request",
    action: text(what.action),
    sender: text(at(body, "user", "username")),
  };
  if (!base || !head_commit || !Number.isInteger(number)) return named;
  return {
    ...named,
    pull: {
      number: number as number,
      title: text(what.title) ?? "",
      base,
      head_commit,
      is_fork: what.source_project_id !== what.target_project_id,
      is_draft: what.draft === true || what.work_in_progress === true,
      is_open: what.state === "opened",
      merge_commit: what.state === "merged" ? commit(what.merge_commit_sha) : undefined,
    },
  };
}

function generic(body: Json): Partial<Delivery> {
  const ref = text(body.ref);
  const branch = ref === undefined || ref.startsWith("refs/") ? ref : `refs/heads/${ref}`;
  return { event: "push", ref: branch, after: commit(body.commit) };
}

const GITLAB_EVENTS: Record<string, (body: Json) => Partial<Delivery>> = {
  push: push,
  tag_push: push,
  merge_request: mergeRequest,
};
const GITHUB_EVENTS: Record<string, (body: Json) => Partial<Delivery>> = {
  push: push,
  pull_request: pullRequest,
  // Gitea has a name of its own for a pull request whose commits changed.
  pull_request_sync: pullRequest,
};

function identityOf(provider: Provider, headers: Headers): string | undefined {
  const names = {
    github: ["x-github-delivery"],
    gitea: ["x-forgejo-delivery", "x-gitea-delivery"],
    gitlab: ["webhook-id", "idempotency-key"],
    generic: ["webhook-id"],
  }[provider];
  return names.map((name) => headers.get(name)).find((value) => value) ?? undefined;
}

/** Reads a delivery; one without an id is known by the digest of its body. */
export function readDelivery(
  provider: Provider,
  headers: Headers,
  body: Json,
  digest: string,
): Delivery {
  const delivery_id = (identityOf(provider, headers) ?? `sha256:${digest}`).slice(0, MOST_TEXT);
  if (provider === "generic") return { delivery_id, event: "push", ...generic(body) };
  const [name, known] = provider === "gitlab"
    ? [text(body.object_kind) ?? "unknown", GITLAB_EVENTS]
    : [
      text(headers.get(provider === "github" ? "x-github-event" : "x-gitea-event")) ?? "unknown",
      GITHUB_EVENTS,
    ];
  return { delivery_id, event: name, ...known[name]?.(body) };
}
