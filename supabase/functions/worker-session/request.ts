/** The requests that worker-session accepts from a runner. */

import { z } from "zod";
import { jobAttempt } from "../_shared/http.ts";

const MAX_FACTS_CHARACTERS = 32 * 1024;

const facts = z.record(z.string(), z.unknown())
  .refine((value) => JSON.stringify(value).length <= MAX_FACTS_CHARACTERS, "is too large");

const instance = z.string().regex(
  /^[A-Za-z0-9._-]{1,100}$/,
  "has 1 to 100 letters, digits, dots, hyphens or underscores",
);

const credential = {
  worker_id: z.guid(),
  worker_token: z.string().min(1).max(512).optional(),
  access_token: z.string().min(1).max(8192).optional(),
};

export const openRequest = z.strictObject({
  ...credential,
  organization_id: z.guid().nullish(),
  instance,
  boot_id: z.guid(),
  facts: facts.default({}),
}).refine(
  (body) => (body.worker_token === undefined) !== (body.access_token === undefined),
  "give worker_token or access_token",
);

/** The doctor's question: is the credential right? No session is opened, nobody is disturbed. */
export const checkRequest = z.strictObject({ check: z.literal(true), ...credential });

export const renewRequest = z.strictObject({ renew: z.literal(true) });

export const jobRequest = z.strictObject({ job: jobAttempt, engine: z.literal(true).optional() });

export type OpenRequest = z.infer<typeof openRequest>;
export type CheckRequest = z.infer<typeof checkRequest>;
export type JobRequest = z.infer<typeof jobRequest>;
