/** Deliveries of git providers: checks the signature, writes the delivery down, answers. The database does the rest. */

import { call, callFor } from "../_shared/database.ts";
import { isEcho, type Provider, readDelivery } from "../_shared/git_events.ts";
import { digest } from "../_shared/codes.ts";
import { Answer, isStorable, json, readBytes, readJson, serveWith } from "../_shared/http.ts";
import { open } from "../_shared/sealing.ts";
import { completeApp, tokenForJob } from "./apps.ts";
import { isSigned } from "./signatures.ts";

/** A push of thousands of commits stays below it; the poll finds what a larger one announces. */
const MOST_BYTES = 5 * 1024 * 1024;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

interface Connection {
  org_id: string;
  provider: Provider;
  webhook_secret: string;
  /** A GitHub App: its deliveries name their repository. */
  is_app?: boolean;
}

type Verdict = { is_new: boolean; verdict: string; reason: string | null };

function placeOf(request: Request): string {
  return new URL(request.url).pathname.replace(/^(\/functions\/v1)?\/git\/?/, "");
}

async function connectionAt(request: Request): Promise<[string, Connection]> {
  const id = placeOf(request);
  const found = UUID.test(id) ? await call<Connection | null>("git_connection_secret", { p_connection: id }) : null;
  if (found) return [id, found];
  throw new Answer(404, { code: "RY404", message: "There is no such connection." });
}

/**
 * Reads the event: JSON, or JSON in a form field, as GitHub sends it when it is set up so. The signed body decides
 * which, not a header: read as a form, the text of a comment could bring an event of its own.
 */
function readEvent(bytes: Uint8Array): Record<string, unknown> {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    const isForm = text.startsWith("payload=");
    const body = readJson(isForm ? new URLSearchParams(text).get("payload") ?? "" : text);
    if (typeof body === "object" && body !== null && !Array.isArray(body)) {
      return body as Record<string, unknown>;
    }
  } catch (error) {
    if (error instanceof Answer) throw error;
    // The text is not UTF-8: answered below, as every other body that is not an event.
  }
  throw new Answer(400, { code: "RY422", message: "The body is not a JSON object." });
}

async function checkSignature(request: Request, id: string, found: Connection, bytes: Uint8Array<ArrayBuffer>) {
  const secret = await open(found.org_id, found.webhook_secret);
  if (await isSigned(found.provider, request.headers, secret, bytes)) return;
  if (!found.is_app) await call("refuse_git_delivery", { p_connection: id });
  throw new Answer(401, {
    code: "RY401",
    message: "The signature does not match.",
    hint: "Set the webhook's secret to the one that the connection showed, or replace both.",
  });
}

async function receive(id: string, delivery: Record<string, unknown>): Promise<Verdict> {
  if (!isStorable(delivery)) {
    throw new Answer(400, { code: "RY422", message: "The delivery contains a NUL or a lone surrogate." });
  }
  const args = { p_connection: id, p_delivery: delivery };
  const statusOf = (code: string) => code === "RY404" ? 404 : 400;
  return await callFor("receive_git_delivery", args, statusOf) as unknown as Verdict;
}

/** The repository of an app's delivery; one that no module uses is heard, and starts nothing. */
async function repositoryOf(app: string, event: Record<string, unknown>): Promise<string> {
  const [repository, installation] = [event.repository, event.installation].map((each) =>
    (each ?? {}) as Record<string, unknown>
  );
  const connection = await call<string | null>("git_app_connection", {
    p_app: app,
    p_url: String(repository.clone_url ?? ""),
    p_installation: Number(installation.id) || null,
  });
  if (connection) return connection;
  throw new Answer(202, { verdict: "IGNORED", reason: "No module uses this repository." });
}

export const handler = serveWith(async (request) => {
  if (placeOf(request) === "token") return await tokenForJob(request);
  if (placeOf(request) === "apps") return await completeApp(request);
  const [id, found] = await connectionAt(request);
  const bytes = await readBytes(request, MOST_BYTES);
  await checkSignature(request, id, found, bytes);
  const body_sha256 = await digest(bytes);
  const event = readEvent(bytes);
  const delivery = readDelivery(found.provider, request.headers, event, body_sha256);
  if (isEcho(delivery.event, event)) {
    return json(202, { verdict: "IGNORED", reason: "Runyard wrote this itself." });
  }
  const connection = found.is_app ? await repositoryOf(id, event) : id;
  const answer = await receive(connection, { ...delivery, body_sha256 });
  return json(answer.is_new ? 202 : 200, { verdict: answer.verdict, reason: answer.reason });
});
