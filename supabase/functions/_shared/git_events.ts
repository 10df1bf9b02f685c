/** Translates a delivery of any provider into the words of the database. */

export type Provider = "github" | "gitlab" | "gitea" | "generic";

/** A pull request as far as a plan of it needs to know. */
export interface Pull {
  number: number;
  title: string;
  /** The login that opened it. */
  author?: string;
  base: string;
  head_commit: string;
  head_branch?: string;
  is_fork: boolean;
  is_draft: boolean;
  is_open: boolean;
  merge_commit?: string;
}

/** A command in a comment on a pull request. */
export interface Comment {
  id: number;
  number: number;
  verb: string;
  argument: string;
  sender_id: string;
  created_at?: string;
}

/** An entry of a merge queue; its commits are the delivery's. */
export type Queue = { number: number; base: string; is_open: boolean; reason?: string };

export interface Delivery {
  delivery_id: string;
  has_signed_id?: boolean;
  event: string;
  action?: string;
  ref?: string;
  before?: string;
  after?: string;
  is_deleted?: boolean;
  sender?: string;
  /** The authors of the change: login:ann, id:11, email:ann@example.com, account:11:ann for both at once. */
  people?: string[];
  pull?: Pull;
  comment?: Comment;
  queue?: Queue;
}

type Json = Record<string, unknown>;

/** The beginning of each comment that Runyard writes, and the name of its statuses. */
export const MARK = "<!-- runyard ";
export const CONTEXT = "runyard";

const COMMIT = /^[0-9a-f]{40,64}$/;
const MOST_TEXT = 200;
/** So a branch is cut at the same place in a push and in a pull request. */
const MOST_REF = MOST_TEXT + "refs/heads/".length;

/** Follows a path through objects; what is not there is undefined. */
function at(body: Json, ...path: string[]): unknown {
  return path.reduce<unknown>(
    (value, name) => typeof value === "object" && value !== null ? (value as Json)[name] : undefined,
    body,
  );
}

function text(value: unknown, most = MOST_TEXT): string | undefined {
  return typeof value === "string" && value ? value.slice(0, most) : undefined;
}

/** A commit; the zeros by which providers write "none" are none. */
function commit(value: unknown): string | undefined {
  return typeof value === "string" && COMMIT.test(value) && !/^0+$/.test(value) ? value : undefined;
}

/** The names by which providers write people; a commit's co-authors are in its message. */
function peopleOf(...found: unknown[]): string[] {
  const names = found.flatMap((each) => {
    const { login, username, id, email } = (each ?? {}) as Json;
    const name = text(login) ?? text(username);
    const account = name && Number.isSafeInteger(id) ? `${id}:${name}` : undefined;
    return [["login", login], ["login", username], ["id", id], ["email", email], ["account", account]];
  }).filter(([, value]) => text(value) ?? Number.isSafeInteger(value));
  return [...new Set(names.map(([kind, value]) => `${kind}:${value}`.toLowerCase()))];
}

function coAuthors(message: unknown): { email: string }[] {
  const words = typeof message === "string" ? message : "";
  const found = words.matchAll(/^co-authored-by:.*<([^<>\s]+)>/gim);
  return [...found].map(([, email]) => ({ email }));
}

function pushers(body: Json): string[] {
  const commits = [body.commits, body.head_commit].flat().filter((each) => each) as Json[];
  return peopleOf(
    body.sender,
    body.pusher,
    // GitHub's pusher has a name and no login.
    { login: at(body, "pusher", "login") ?? at(body, "pusher", "name") },
    { login: body.user_username, id: body.user_id, email: body.user_email },
    ...commits.flatMap(({ author, committer, message }) => [author, committer, ...coAuthors(message)]),
  );
}

function push(body: Json): Partial<Delivery> {
  return {
    people: pushers(body),
    event: "push",
    ref: text(body.ref, MOST_REF),
    before: commit(body.before),
    after: commit(body.after),
    is_deleted: commit(body.after) === undefined,
    sender: text(at(body, "sender", "login")) ?? text(body.user_username) ?? text(body.user_name),
  };
}

/** The actions by which commits come to a pull request; a label by somebody changes nothing. */
const PUSHES = new Set<unknown>(["opened", "synchronize", "synchronized"]);

/** GitHub's and Gitea's pull requests have the same shape. */
export function pullRequest(body: Json): Partial<Delivery> {
  const pull = at(body, "pull_request") as Json | undefined;
  const head_commit = commit(at(pull ?? {}, "head", "sha"));
  const [base, number] = [text(at(pull ?? {}, "base", "ref")), at(body, "number")];
  const named = {
    event: "pull_request",
    action: text(body.action),
    sender: text(at(body, "sender", "login")),
    people: peopleOf(at(pull ?? {}, "user"), PUSHES.has(body.action) && body.sender),
  };
  if (!pull || !base || !head_commit || !Number.isInteger(number)) return named;
  return {
    ...named,
    pull: {
      number: number as number,
      title: text(pull.title) ?? "",
      author: text(at(pull, "user", "login")),
      base,
      head_commit,
      head_branch: text(at(pull, "head", "ref")),
      // A deleted repository was a fork, too.
      is_fork: at(pull, "head", "repo", "id") === undefined ||
        at(pull, "head", "repo", "id") !== at(pull, "base", "repo", "id"),
      is_draft: pull.draft === true,
      is_open: pull.state === "open",
      merge_commit: pull.merged === true ? commit(pull.merge_commit_sha) : undefined,
    },
  };
}

export function mergeRequest(body: Json): Partial<Delivery> {
  const what = (at(body, "object_attributes") ?? {}) as Json;
  const head_commit = commit(at(what, "last_commit", "id"));
  const [base, number] = [text(what.target_branch), what.iid];
  const named = {
    event: "pull_request",
    action: text(what.action),
    sender: text(at(body, "user", "username")),
    people: peopleOf(
      { id: what.author_id },
      at(what, "last_commit", "author"),
      // GitLab names the old head where commits were pushed.
      (what.action === "open" || what.oldrev) && body.user,
    ),
  };
  if (!base || !head_commit || !Number.isInteger(number)) return named;
  return {
    ...named,
    pull: {
      number: number as number,
      title: text(what.title) ?? "",
      base,
      head_commit,
      head_branch: text(what.source_branch),
      is_fork: what.source_project_id !== what.target_project_id,
      is_draft: what.draft === true || what.work_in_progress === true,
      is_open: what.state === "opened",
      // A merge without a commit of its own is the squashed commit, or the head itself.
      merge_commit: what.state === "merged"
        ? commit(what.merge_commit_sha) ?? commit(what.squash_commit_sha) ?? head_commit
        : undefined,
    },
  };
}

/** A time as providers write it, in the form that the database reads. */
function time(value: unknown): string | undefined {
  const found = new Date(typeof value === "string" ? value : NaN);
  return found.getFullYear() > 0 && found.getFullYear() < 9999 ? found.toISOString() : undefined;
}

/** Reads a command: a comment that begins with /runyard; without a word it asks for help. */
function command(body: unknown): Pick<Comment, "verb" | "argument"> | undefined {
  const first = typeof body === "string" ? body.trimStart().split("\n", 1)[0].trim() : "";
  const [mark, verb = "help", argument = "", ...more] = first.split(/\s+/);
  if (mark !== "/runyard") return undefined;
  const words = more.length > 0 ? [argument, ...more].join(" ") : argument;
  return { verb: verb.slice(0, MOST_TEXT), argument: words.slice(0, MOST_TEXT) };
}

function commentOf(isNew: boolean, body: unknown, [id, number, sender, created]: unknown[]): Comment | undefined {
  const found = isNew ? command(body) : undefined;
  const numbers = [id, number, sender];
  if (!found || !numbers.every((each) => Number.isSafeInteger(each))) return undefined;
  return {
    ...found,
    id: id as number,
    number: number as number,
    sender_id: String(sender),
    created_at: time(created),
  };
}

/** Tells whether an event only announces what Runyard wrote itself: it leads to nothing. Anybody may imitate it. */
export function isEcho(event: string, body: Json): boolean {
  if (event === "status") return body.context === CONTEXT;
  const written = at(body, "comment", "body") ?? at(body, "object_attributes", "note");
  return event === "comment" && typeof written === "string" && written.startsWith(MARK);
}

/** Only new comments: an edited one may have been written by somebody else. */
function issueComment(body: Json): Partial<Delivery> {
  const isPull = at(body, "issue", "pull_request") != null || body.is_pull === true;
  const ids = [
    ["comment", "id"],
    ["issue", "number"],
    ["comment", "user", "id"],
    ["comment", "created_at"],
  ];
  return {
    event: "comment",
    action: text(body.action),
    sender: text(at(body, "comment", "user", "login")),
    comment: commentOf(
      isPull && body.action === "created",
      at(body, "comment", "body"),
      ids.map((path) => at(body, ...path)),
    ),
  };
}

function note(body: Json): Partial<Delivery> {
  const what = (at(body, "object_attributes") ?? {}) as Json;
  const isNew = what.noteable_type === "MergeRequest" && (what.action ?? "create") === "create";
  const ids = [what.id, at(body, "merge_request", "iid"), at(body, "user", "id"), what.created_at];
  return {
    event: "comment",
    action: text(what.action),
    sender: text(at(body, "user", "username")),
    comment: commentOf(isNew, what.note, ids),
  };
}

/** GitHub's merge queue names the pull request in the branch of the entry alone. */
function mergeGroup(body: Json): Partial<Delivery> {
  const group = (at(body, "merge_group") ?? {}) as Json;
  const [ref, base] = [text(group.head_ref), text(group.base_ref)?.replace("refs/heads/", "")];
  const [before, after] = [commit(group.base_sha), commit(group.head_sha)];
  const number = Number(ref?.match(/\/pr-(\d{1,9})-[^/]*$/)?.[1] ?? 0);
  const isOpen = body.action === "checks_requested";
  const isKnown = isOpen || body.action === "destroyed";
  const sender = text(at(body, "sender", "login"));
  const named = { event: "merge_group", action: text(body.action), ref, before, after, sender };
  if (!ref?.startsWith("refs/heads/") || !base || !before || !after || !number || !isKnown) {
    return named;
  }
  return { ...named, queue: { number, base, is_open: isOpen, reason: text(body.reason) } };
}

function generic(body: Json): Partial<Delivery> {
  const ref = text(body.ref, MOST_REF);
  const branch = ref === undefined || ref.startsWith("refs/") ? ref : `refs/heads/${ref}`;
  return { event: "push", ref: branch, after: commit(body.commit) };
}

const GITLAB_EVENTS: Record<string, (body: Json) => Partial<Delivery>> = {
  push: push,
  tag_push: push,
  merge_request: mergeRequest,
  note: note,
};
const GITHUB_EVENTS: Record<string, (body: Json) => Partial<Delivery>> = {
  push: push,
  pull_request: pullRequest,
  // Gitea has a name of its own for a pull request whose commits changed.
  pull_request_sync: pullRequest,
  issue_comment: issueComment,
  pull_request_comment: issueComment,
  merge_group: mergeGroup,
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
export function readDelivery(provider: Provider, headers: Headers, body: Json, digest: string): Delivery {
  const delivery_id = (identityOf(provider, headers) ?? `sha256:${digest}`).slice(0, MOST_TEXT);
  if (provider === "generic") {
    return { delivery_id, has_signed_id: true, event: "push", ...generic(body) };
  }
  const isGitlab = provider === "gitlab";
  const header = headers.get(provider === "github" ? "x-github-event" : "x-gitea-event");
  const name = text(isGitlab ? body.object_kind : header) ?? "unknown";
  const known = isGitlab ? GITLAB_EVENTS : GITHUB_EVENTS;
  // Any other name, such as "constructor", is a word without a reader.
  const read = Object.hasOwn(known, name) ? known[name](body) : {};
  return { delivery_id, has_signed_id: headers.has("webhook-signature") && isGitlab, event: name, ...read };
}
