/** Publishes or withdraws a release of the runner, for the pipeline that builds it. */

import { z } from "zod";
import { callFor, limit } from "../_shared/database.ts";
import { addressOf, has, json, parse, readBody, serveWith } from "../_shared/http.ts";
import { needCredential } from "../_shared/secrets.ts";

const PER_ADDRESS = 30;
const MAX_NOTES_CHARACTERS = 64 * 1024;

/** Semantic versions, and Python's spelling of a pre-release (1.2.0rc1). */
const version = z.string().max(100).regex(
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)((a|b|rc)\d+)?(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/,
  "is not a version such as 1.4.0",
);

const artifact = z.strictObject({
  name: z.string().min(1).max(200).regex(/^[A-Za-z0-9][A-Za-z0-9._+-]*$/, "is not a file name"),
  url: z.url({ protocol: /^https$/ }).max(2000),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, "is not a SHA-256 in lower-case hex"),
});

const publish = z.strictObject({
  version,
  channel: z.enum(["stable", "beta"]).default("stable"),
  notes: z.string().max(MAX_NOTES_CHARACTERS).default(""),
  is_breaking: z.boolean().default(false),
  artifacts: z.array(artifact).max(100).default([]),
});

const withdraw = z.strictObject({ withdraw: z.literal(true), version, reason: z.string().min(1).max(2000) });

const STATUS_OF: Record<string, number> = { RY404: 404, RY409: 409, RY422: 400, RY429: 429 };

const publishing = async (name: string, args: Record<string, unknown>) =>
  json(200, { release: await callFor(name, args, (code) => STATUS_OF[code] ?? 403) });

export const handler = serveWith(async (request) => {
  await limit([[`release:address:${addressOf(request)}`, PER_ADDRESS]]);
  // The pipeline's own credential: it can publish releases and do nothing else.
  await needCredential(request, "RELEASE_PUBLISH_TOKEN", "publishing");
  const body = await readBody(request);
  if (has(body, "withdraw")) {
    const { version, reason } = parse(withdraw, body);
    return await publishing("withdraw_release", { p_version: version, p_reason: reason });
  }
  return await publishing("publish_release", { p_spec: parse(publish, body) });
});
