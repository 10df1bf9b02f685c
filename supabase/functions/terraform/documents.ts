/** JSON:API: documents, pages and refusals. */

import { Answer, json } from "../_shared/http.ts";

export const JSON_API = { "content-type": "application/vnd.api+json", "tfp-api-version": "2.6" };

export interface Resource {
  id: string;
  type: string;
  attributes: Record<string, unknown>;
  relationships?: Record<string, unknown>;
}

export const api = (body: unknown, status = 200) => json(status, body, JSON_API);
export const one = (data: Resource, included: Resource[] = []) => api({ data, included });
export const nothing = (status = 204) => new Response(null, { status, headers: JSON_API });

const PAGE = 100;

export function page(data: Resource[], total = data.length, number = 1): Response {
  const last = Math.max(1, Math.ceil(total / PAGE));
  const pagination = {
    "current-page": number,
    "page-size": PAGE,
    "prev-page": number > 1 ? number - 1 : null,
    "next-page": number < last ? number + 1 : null,
    "total-pages": last,
    "total-count": total,
  };
  return api({ data, meta: { pagination } });
}

/** A time as the programs read it: whole seconds in UTC. */
export const at = (time: string) => new Date(time).toISOString().replace(/\.\d+/, "");

/** The id of a workspace or a project: HashiCorp's provider takes sixteen letters and digits. */
export const short = (kind: "ws" | "prj", id: string) => `${kind}-${id.replaceAll("-", "").slice(0, 16)}`;

/** A relationship to one resource. */
export const to = (type: string, id: string) => ({ data: { type, id } });

export function refuse(status: number, title: string, detail = title): never {
  throw new Answer(status, { errors: [{ status: String(status), title, detail }] });
}

const STATUS: Record<string, number> = { RY401: 401, RY403: 403, RY404: 404, RY409: 409, RY413: 413, RY422: 422, RY423: 409, RY429: 429 };

/** Passes a refusal of the database on, in its words. */
export function refuseAs(status: number, said?: Record<string, unknown>): never {
  const known = STATUS[String(said?.code)];
  const message = String(said?.message ?? "The database does not answer.");
  if (known) refuse(known, message, String(said?.hint ?? message));
  if (status === 401) refuse(401, "The token is not accepted.", message);
  if (status === 413) refuse(413, "The request is too large.", message);
  refuse(status < 500 ? 422 : 503, message);
}
