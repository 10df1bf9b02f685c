/** Reports git results to the provider: a status for a commit, one comment for a pull request, edited in place. */

import { dashboardUrl } from "../_shared/env.ts";
import { MARK, mergeRequest, pullRequest } from "../_shared/git_events.ts";
import { installationToken } from "../_shared/github_app.ts";
import { linkOf, type Message } from "./messages.ts";
import { apiOf, nameOf, type Provider, PROVIDERS, type Report, type Row, type Write } from "./providers.ts";
import { checkReceiver, type Outcome, sendInTime } from "./receivers.ts";

/** With their links they stay below GitHub's 65,536 characters. */
const MOST_ROWS = 200;
const PER_PAGE = 100;
const MOST_GONE = 20;
const READERS = { github: pullRequest, gitea: pullRequest, gitlab: mergeRequest };
const MOST_WAIT_SECONDS = 6 * 3600;

class Api {
  constructor(readonly base: string, readonly provider: Provider, readonly token: string) {}

  async send(method: string, path: string, body?: Record<string, unknown>): Promise<Response> {
    const target = await checkReceiver(this.base + path);
    const headers = {
      "content-type": "application/json",
      "user-agent": "Runyard",
      ...this.provider.headers(this.token),
    };
    return await sendInTime(target, { method, headers, body: body && JSON.stringify(body) });
  }
}

/** Backslashes keep Markdown from reading a name. Mentions are read from the finished page: a space without width ends them. */
function plain(text: string): string {
  const escaped = text.replace(/[\\`*_{}[\]<>()#+!|~$&]/g, "\\$&");
  return escaped.replaceAll("@", "@&#8203;").replace(/\s+/g, " ");
}

function line(row: Row, org: string): string {
  const address = dashboardUrl();
  const link = row.job && address
    ? `[#${row.job}](${address}/o/${org}/jobs/${row.job})`
    : row.job
    ? `job ${row.job}`
    : "";
  const counts = [row.to_add, row.to_change, row.to_destroy].map(Number);
  return `| ${[plain(row.path), ...counts, row.result, link].join(" | ")} |`;
}

const marker = (report: Report): string => `${MARK}${report.connection} -->`;

function commentOf(report: Report, org: string): string {
  const rows = report.rows ?? [];
  const table = rows.length === 0 ? [] : [
    "| module | add | change | destroy | result | job |",
    "|---|---:|---:|---:|---|---|",
    ...rows.slice(0, MOST_ROWS).map((row) => line(row, org)),
  ];
  const more = rows.length > MOST_ROWS ? [`…and ${rows.length - MOST_ROWS} more modules.`] : [];
  const title = `**Runyard** at ${report.commit.slice(0, 7)}: ${plain(report.description)}`;
  return [marker(report), title, "", ...table, ...more].join("\n");
}

/** Seconds until the provider accepts the next request, where its answer has them. */
function waitOf(response: Response): number | undefined {
  const after = Number(response.headers.get("retry-after") ?? NaN);
  const reset = Number(response.headers.get("x-ratelimit-reset") ?? NaN);
  const isUsedUp = response.headers.get("x-ratelimit-remaining") === "0";
  const seconds = Number.isFinite(after) ? after : isUsedUp ? reset - Date.now() / 1000 : NaN;
  if (!Number.isFinite(seconds)) return undefined;
  return Math.ceil(Math.min(Math.max(seconds, 1), MOST_WAIT_SECONDS));
}

/** GitLab refuses a status that the commit has already. */
function isRepeated(report: Report, status: number, text: string): boolean {
  return report.provider === "gitlab" && status === 400 &&
    text.includes("Cannot transition status");
}

/** Redirects are not followed: the token is for one address. */
async function failed(response: Response): Promise<Outcome> {
  if (!response.bodyUsed) await response.body?.cancel();
  const { status } = response;
  const isMoved = [301, 307, 308].includes(status);
  const note = isMoved ? `${status}: the repository was moved; change its URL` : String(status);
  return { status: "FAILED", http_status: status, note, retry_seconds: waitOf(response) };
}

function delivered(response: Response): Outcome {
  return { status: "DELIVERED", http_status: response.status, note: String(response.status) };
}

async function writeStatus(api: Api, report: Report, write: Write): Promise<Outcome> {
  const response = await api.send(write.method, write.path, write.body);
  const text = await response.text();
  const isDone = response.ok || isRepeated(report, response.status, text);
  return isDone ? delivered(response) : await failed(response);
}

/** A sender that died after creating the comment could not note its id. */
async function findComment(api: Api, report: Report, mark: string): Promise<number | undefined | Response> {
  const path = `${api.provider.comments(report)}?per_page=${PER_PAGE}&limit=${PER_PAGE}`;
  const response = await api.send("GET", path);
  if (!response.ok) return response;
  const found = await response.json() as { id: number; body?: string }[];
  return found.find((each) => each.body?.startsWith(mark))?.id;
}

async function editComment(api: Api, report: Report, id: number, body: string): Promise<Outcome> {
  const response = await api.send(api.provider.edit, api.provider.comment(report, id), { body });
  if (response.ok) await response.body?.cancel();
  if (response.ok) return { ...delivered(response), comment_id: id };
  if (response.status !== 404 && response.status !== 410) return await failed(response);
  const note = "The comment was deleted; it is created again.";
  return { ...await failed(response), note, comment_id: null, retry_seconds: 1 };
}

async function writeComment(api: Api, report: Report, body: string): Promise<Outcome> {
  if (report.comment_id) return await editComment(api, report, report.comment_id, body);
  if (report.rows?.length === 0 && report.state !== "failure") {
    return { status: "DELIVERED", note: "No comment: nothing is planned." };
  }
  const found = await findComment(api, report, marker(report));
  if (found instanceof Response) return await failed(found);
  if (found !== undefined) return await editComment(api, report, found, body);
  const response = await api.send("POST", api.provider.comments(report), { body });
  if (!response.ok) return await failed(response);
  const { id } = await response.json() as { id: number };
  return { ...delivered(response), comment_id: id };
}

/** Lists open pull requests, and reads those that were open before. */
async function listPulls(api: Api, report: Report): Promise<Outcome> {
  const where = api.provider.pulls(report);
  const state = report.provider === "gitlab" ? "opened" : "open";
  const answer = await api.send("GET", `${where}?state=${state}&per_page=${PER_PAGE}&limit=50`);
  if (!answer.ok) return await failed(answer);
  const listed = await answer.json() as Record<string, unknown>[];
  const found = new Set(listed.map((each) => each.iid ?? each.number));
  const gone = (report.known ?? []).filter((number) => !found.has(number)).slice(0, MOST_GONE);
  for (const number of gone) {
    const one = await api.send("GET", `${where}/${number}`);
    if (one.ok) listed.push(await one.json() as Record<string, unknown>);
    else await one.body?.cancel();
  }
  const read = READERS[report.provider];
  const pulls = listed.map((each) => read(api.provider.event(each)))
    .flatMap(({ pull, sender, people }) => pull ? [{ ...pull, author: sender, people }] : []);
  return { ...delivered(answer), pulls };
}

/** Acknowledges a command: a reaction, which a provider accepts twice, and an answer, which is written once. */
async function writeAnswer(api: Api, report: Report, write: Write): Promise<Outcome> {
  const reaction = await api.send(write.method, write.path, write.body);
  // GitLab refuses a reaction that exists.
  const isThere = reaction.ok || (await reaction.text()).includes("already been taken");
  if (!isThere && reaction.status !== 404) return await failed(reaction);
  // The comment may be deleted by now.
  if (!report.answer || !isThere) return delivered(reaction);
  const mark = `${MARK}answer ${report.id} -->`;
  const found = await findComment(api, report, mark);
  if (found instanceof Response) return await failed(found);
  if (found !== undefined) return delivered(reaction);
  const body = `${mark}\n${plain(report.answer)}`;
  const response = await api.send("POST", api.provider.comments(report), { body });
  if (!response.ok) return await failed(response);
  await response.body?.cancel();
  return delivered(response);
}

/** The token that reports are written with: the connection's own, or one that its app's key is exchanged for. */
async function tokenOf(org: string, report: Report, secret: string): Promise<string> {
  if (!report.app) return secret;
  const which = { ...report.app, api_url: apiOf(report), repository: nameOf(report) };
  const rights = { statuses: "write", pull_requests: "write", issues: "write" };
  return (await installationToken(org, which, secret, rights)).token;
}

/** Writes a report; a failure is one of the report alone. */
export async function report(message: Message, secret: string): Promise<Outcome> {
  const content = message.body as unknown as Report;
  const provider = PROVIDERS[content.provider];
  const api = new Api(apiOf(content), provider, await tokenOf(message.org, content, secret));
  if (content.kind === "comment") {
    return await writeComment(api, content, commentOf(content, message.org));
  }
  if (content.kind === "pulls") return await listPulls(api, content);
  if (content.kind === "answer") {
    const reaction = provider.reaction(content, content.comment_id as number);
    return await writeAnswer(api, content, reaction);
  }
  return await writeStatus(api, content, provider.status(content, linkOf(message)));
}
