/** The endpoints and formats in which a git provider accepts statuses and comments. */

import { CONTEXT } from "../_shared/git_events.ts";

export interface Report {
  kind: "status" | "comment" | "answer" | "pulls";
  connection: string;
  provider: "github" | "gitlab" | "gitea";
  url: string;
  base_url: string | null;
  commit: string;
  state: "pending" | "success" | "failure";
  description: string;
  job: { number: number | null };
  number?: number;
  comment_id?: number | null;
  rows?: Row[];
  /** Of an answer to a command: the delivery, the reaction, and what is written. */
  id?: number;
  reaction?: "+1" | "confused";
  answer?: string | null;
  /** The GitHub App that reports, where the connection has one. */
  app?: { number: number; installation: number } | null;
  /** Of a list of pull requests: those that are known as open. */
  known?: number[];
}

export interface Row {
  path: string;
  job: number | null;
  result: string;
  to_add: number;
  to_change: number;
  to_destroy: number;
}

export type Write = { method: string; path: string; body: Record<string, unknown> };

export interface Provider {
  headers(token: string): Record<string, string>;
  status(report: Report, target_url?: string): Write;
  /** The paths of the comments of a pull request, and of one of them. */
  comments(report: Report): string;
  comment(report: Report, id: number): string;
  edit: "PATCH" | "PUT";
  /** A reaction to a comment. */
  reaction(report: Report, id: number): Write;
  /** The path that lists pull requests, and the reader that turns one into its event. */
  pulls(report: Report): string;
  event(pull: Record<string, unknown>): Record<string, unknown>;
}

/** GitHub's limit, the smallest. */
const MOST_DESCRIPTION = 140;
const PLACE = /^(?:([a-z]+):\/\/)?(?:[^/@]*@)?([^/:]+)(?::(\d+)(?=\/))?[:/]+(.+?)(?:\.git)?\/*$/;

function placeOf(url: string): { origin: string; host: string; path: string } {
  const [, scheme, host, port, path] = PLACE.exec(url.trim()) ?? [];
  if (!host || !path) throw new Error("The repository's URL has no host: set the API's address.");
  const isWeb = scheme === "http" || scheme === "https";
  const origin = isWeb ? `${scheme}://${host}${port ? `:${port}` : ""}` : `https://${host}`;
  return { origin, host: host.toLowerCase(), path };
}

/** The API's address: the one that the connection has, or the usual one at the repository's host. */
export function apiOf(report: Report): string {
  if (report.base_url) return report.base_url.replace(/\/+$/, "");
  const { origin, host } = placeOf(report.url);
  if (report.provider === "github" && host === "github.com") return "https://api.github.com";
  return origin + { github: "/api/v3", gitlab: "/api/v4", gitea: "/api/v1" }[report.provider];
}

/** The last part of the repository's name. */
export const nameOf = (report: Report): string => placeOf(report.url).path.split("/").at(-1) ?? "";

/** GitHub's and Gitea's repositories: an owner and a name. */
function repository(report: Report): string {
  return `/repos/${placeOf(report.url).path.split("/").slice(-2).map(encodeURIComponent).join("/")}`;
}

const project = (report: Report): string => `/projects/${encodeURIComponent(placeOf(report.url).path)}`;

function shared(report: Report, target_url?: string): Record<string, unknown> {
  const description = report.description.slice(0, MOST_DESCRIPTION);
  return { description, ...(target_url ? { target_url } : {}) };
}

const github: Provider = {
  headers: (token) => ({
    "authorization": `Bearer ${token}`,
    "accept": "application/vnd.github+json",
    "x-github-api-version": "2022-11-28",
  }),
  status: (report, link) => ({
    method: "POST",
    path: `${repository(report)}/statuses/${report.commit}`,
    body: { ...shared(report, link), state: report.state, context: CONTEXT },
  }),
  comments: (report) => `${repository(report)}/issues/${report.number}/comments`,
  comment: (report, id) => `${repository(report)}/issues/comments/${id}`,
  edit: "PATCH",
  reaction: (report, id) => ({
    method: "POST",
    path: `${github.comment(report, id)}/reactions`,
    body: { content: report.reaction },
  }),
  pulls: (report) => `${repository(report)}/pulls`,
  event: (pull) => ({ number: pull.number, pull_request: pull, sender: pull.user }),
};

const gitea: Provider = { ...github, headers: (token) => ({ "authorization": `token ${token}` }) };

const gitlab: Provider = {
  headers: (token) => ({ "private-token": token }),
  status: (report, link) => ({
    method: "POST",
    path: `${project(report)}/statuses/${report.commit}`,
    body: { ...shared(report, link), state: report.state === "failure" ? "failed" : report.state, name: CONTEXT },
  }),
  comments: (report) => `${project(report)}/merge_requests/${report.number}/notes`,
  comment: (report, id) => `${gitlab.comments(report)}/${id}`,
  edit: "PUT",
  reaction: (report, id) => ({
    method: "POST",
    path: `${gitlab.comment(report, id)}/award_emoji`,
    body: { name: report.reaction === "+1" ? "thumbsup" : report.reaction },
  }),
  pulls: (report) => `${project(report)}/merge_requests`,
  event: (pull) => ({
    object_attributes: { ...pull, author_id: (pull.author as { id?: number })?.id, last_commit: { id: pull.sha } },
    user: pull.author,
  }),
};

export const PROVIDERS = { github, gitea, gitlab };
