/** Whether the edge functions run (/health), the database is written to and swept (/health/sweep), and which settings they have (/health/settings). */

import { call, limit } from "../_shared/database.ts";
import { dashboardUrl, read } from "../_shared/env.ts";
import { addressOf, Answer, json, serveWith } from "../_shared/http.ts";

const PER_ADDRESS = 60;
// A driver sweeps every 10 s; one slow sweep is not an outage.
const LATE_SECONDS = 120;

type Health = { swept_seconds_ago: number | null; write_fault: string | null };

/** Anybody may ask, as a monitor does; the age of the last sweep is shown, and why PostgreSQL cannot write. */
async function sweep(request: Request): Promise<Response> {
  await limit([[`health:address:${addressOf(request)}`, PER_ADDRESS]]).catch((error) => {
    // A limit is a row: where none can be written, the database itself says why.
    if (error instanceof Answer) throw error;
  });
  const health = await call<Health>("installation_health", {});
  if (health.write_fault) {
    return json(503, {
      status: "unwritable",
      message: `PostgreSQL cannot write: ${health.write_fault}.`,
      hint: "Free space on its disk, or make the disk larger. Nothing is stored until then.",
    });
  }
  const seconds = health.swept_seconds_ago;
  const isLate = seconds === null || seconds > LATE_SECONDS;
  return json(isLate ? 503 : 200, {
    status: isLate ? "late" : "ok",
    swept_seconds_ago: seconds,
    ...(isLate && {
      message: "No sweep runs: leases do not end and schedules do not start.",
      hint: "Enable pg_cron, start the stack's supervisor, or schedule POST /rest/v1/rpc/sweep.",
    }),
  });
}

/** The name of the key that signs runners' tokens, which Auth publishes, too. */
function signingKey(): string | null {
  try {
    return (JSON.parse(read("WORKER_SIGNING_JWK") ?? "{}") as { kid?: string }).kid ?? null;
  } catch {
    return null;
  }
}

/** `runyard doctor --project` compares them with the project; nothing that is secret is shown. */
async function settings(request: Request): Promise<Response> {
  await limit([[`health:address:${addressOf(request)}`, PER_ADDRESS]]);
  return json(200, {
    signing_key: signingKey(),
    has_identity_keys: read("RUNYARD_IDENTITY_KEYS") !== undefined,
    dashboard_url: dashboardUrl() ?? null,
  });
}

const ANSWERS: Record<string, typeof sweep> = { sweep, settings };

export const handler = serveWith(async (request) => {
  const answer = ANSWERS[new URL(request.url).pathname.split("/").at(-1) ?? ""];
  return await answer?.(request) ?? json(200, { status: "ok" });
}, null);
