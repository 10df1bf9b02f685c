/** A message as its receiver gets it: our own shape, Slack's, Teams' or a mail. */

import { dashboardUrl } from "../_shared/env.ts";

export interface Message {
  id: number;
  lease: string;
  org: string;
  organization: string;
  event: string;
  event_id: string;
  title: string;
  body: Record<string, unknown>;
  at: string;
  attempt: number;
  channel: "webhook" | "slack" | "teams" | "mail" | "git";
  address: string;
  secret: string | null;
}

type Subject = { id?: string; number?: number; path?: string };

/** The address of the page that a message is about; nothing where the dashboard's address is not known. */
export function linkOf(message: Message): string | undefined {
  const address = dashboardUrl();
  if (!address) return undefined;
  // Each organisation counts its own jobs: the link names the organisation as well.
  const pages = `${address}/o/${message.org}`;
  const { job, module, runner } = message.body as Record<string, Subject | undefined>;
  if (job?.number) return `${pages}/jobs/${job.number}`;
  if (runner?.id) return `${pages}/runners/${runner.id}`;
  return module?.path ? `${pages}/modules?path=${encodeURIComponent(module.path)}` : address;
}

function reasonOf(message: Message): string {
  return typeof message.body.reason === "string" ? message.body.reason : "";
}

function webhook(message: Message): unknown {
  const { event: type, event_id: id, at, title, organization } = message;
  return { id, type, timestamp: at, title, organization, url: linkOf(message), data: message.body };
}

/** Slack reads &, < and > as its own. */
function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function slack(message: Message): unknown {
  const link = linkOf(message);
  const lines = [`*${escape(message.title)}*`, escape(reasonOf(message)), link && `<${link}|Open>`];
  return { text: lines.filter(Boolean).join("\n") };
}

/** A TextBlock is Markdown, in which a job's text could draw links and pictures; a TextRun is plain text. */
function plainBlock(text: string, style = {}): unknown {
  return { type: "RichTextBlock", inlines: [{ type: "TextRun", text, ...style }] };
}

function teams(message: Message): unknown {
  const link = linkOf(message);
  const reason = reasonOf(message);
  const content = {
    $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
    type: "AdaptiveCard",
    version: "1.4",
    body: [plainBlock(message.title, { weight: "bolder" }), ...(reason ? [plainBlock(reason)] : [])],
    ...(link ? { actions: [{ type: "Action.OpenUrl", title: "Open", url: link }] } : {}),
  };
  return { type: "message", attachments: [{ contentType: "application/vnd.microsoft.card.adaptive", content }] };
}

/** The text of a mail. */
export function mailText(message: Message): string {
  const { title, organization, at } = message;
  return [title, reasonOf(message), linkOf(message), `${organization}, ${at}`].filter(Boolean).join("\n\n");
}

/** The body of a request to a webhook. */
export function payloadOf(message: Message): string {
  const shapes = { webhook, slack, teams, mail: webhook, git: webhook };
  return JSON.stringify(shapes[message.channel](message));
}
