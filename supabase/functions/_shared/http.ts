/** Requests and answers, the same in every function. */

import { z } from "zod";
import { isHosted, read } from "./env.ts";

const MAX_BODY_BYTES = 256 * 1024;
const MOST_LEVELS = 100;

/** An attempt of a job, as runners name it. */
export const jobAttempt = z.strictObject({ id: z.int().positive(), attempt: z.int().positive() });

/** An answer that is thrown: the handler's wrapper sends it. */
export class Answer extends Error {
  constructor(
    readonly status: number,
    readonly body: Record<string, unknown>,
    readonly headers: Record<string, string> = {},
  ) {
    super(String(body.message ?? status));
  }
}

/** Makes a JSON response that nothing may keep. */
export function json(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return Response.json(body, { status, headers: { "cache-control": "no-store", ...headers } });
}

/** Wraps a handler: one method or any, thrown answers sent, and no inner error ever shown. */
export function serveWith(
  handle: (request: Request) => Promise<Response>,
  method: string | null = "POST",
): (request: Request) => Promise<Response> {
  return async (request) => {
    try {
      if (request.method !== (method ?? request.method)) {
        return json(405, { code: "RY422", message: `Use ${method}.` }, { allow: method! });
      }
      return await handle(request);
    } catch (error) {
      if (error instanceof Answer) return json(error.status, error.body, error.headers);
      console.error(error instanceof Error ? error.message : "unknown error");
      return json(500, { code: "RY500", message: "The function failed; its log says why." });
    }
  };
}

/** Reads at most so many bytes, so that a caller cannot fill the memory. */
export async function readBytes(request: Request, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body ?? []) {
    size += part.byteLength;
    if (size > most) {
      throw new Answer(413, { code: "RY422", message: "The request is too large." });
    }
    parts.push(part);
  }
  return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
}

/** Reads at most MAX_BODY_BYTES of text. */
export async function readText(request: Request): Promise<string> {
  return new TextDecoder().decode(await readBytes(request, MAX_BODY_BYTES));
}

/** Reads the body as an object, from JSON or from a form as OAuth clients send it. */
export async function readBody(request: Request): Promise<unknown> {
  const text = await readText(request);
  if (request.headers.get("content-type")?.startsWith("application/x-www-form-urlencoded")) {
    return Object.fromEntries(new URLSearchParams(text));
  }
  return readJson(text);
}

/** Tells whether a body is an object with this field. */
export function has<K extends string>(body: unknown, field: K): body is Record<K, unknown> {
  return typeof body === "object" && body !== null && field in body;
}

/** Reads JSON. Code that walks a value calls itself at each level, so that a deep one would end its stack. */
export function readJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Answer(400, { code: "RY422", message: "The body is not JSON." });
  }
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_LEVELS) {
      const message = `The body is nested more than ${MOST_LEVELS} levels deep.`;
      throw new Answer(400, { code: "RY422", message });
    }
    level = level.flatMap((each) => typeof each === "object" && each ? Object.values(each) : []);
  }
  return value;
}

/** Tells whether every text in a value can be stored: PostgreSQL has no NUL, and UTF-8 no lone surrogate. */
export function isStorable(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed() && !value.includes("\0");
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every((pair) => pair.every(isStorable));
}

/** Checks a body against its schema; the answer names every field that is wrong, not its value. */
export function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  if (!isStorable(body)) {
    const message = "The request contains a NUL or a lone surrogate.";
    throw new Answer(400, { code: "RY422", message });
  }
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issues = result.error.issues.map((issue) => ({
    field: issue.path.join(".") || "body",
    message: issue.message,
  }));
  const fields = [...new Set(issues.map((issue) => issue.field))].join(", ");
  const message = `The request is not valid: ${fields}.`;
  throw new Answer(400, { code: "RY422", message, details: issues });
}

/** The value that the nearest proxy appended to a header; the caller may have invented the rest. */
function lastOf(request: Request, header: string): string {
  return (request.headers.get(header) ?? "").split(",").at(-1)!.trim();
}

/**
 * The caller's address as a proxy that we trust saw it, or nothing. On hosted that is Cloudflare's own header: of the
 * other one its first entries, and perhaps all, are the caller's.
 */
export function seenAddress(request: Request): string {
  const chosen = read("RUNYARD_ADDRESS_HEADER") ??
    (isHosted() ? "cf-connecting-ip" : "x-forwarded-for");
  return lastOf(request, chosen);
}

/** Whom attempts are counted for; a claim is better than one count for everybody. */
export function addressOf(request: Request): string {
  const claimed = (request.headers.get("x-forwarded-for") ?? "").split(",")[0].trim();
  return seenAddress(request) || (isHosted() && claimed) || "unknown";
}

/** The Bearer token of a request, if it has one. */
export function bearerOf(request: Request): string | undefined {
  const value = request.headers.get("authorization") ?? "";
  return value.startsWith("Bearer ") ? value.slice("Bearer ".length).trim() : undefined;
}
