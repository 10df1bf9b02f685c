/** The installation's figures in the text format that Prometheus reads, for anyone who has the monitoring credential. */

import { call, limit } from "../_shared/database.ts";
import { read } from "../_shared/env.ts";
import { addressOf, Answer, bearerOf, serveWith } from "../_shared/http.ts";
import { isEqual } from "../_shared/secrets.ts";

const PER_ADDRESS = 60;

interface Figures {
  jobs: Record<string, number>;
  oldest_queued_seconds: number;
  waits: { count: number; sum: number; p50: number | null; p95: number | null; p99: number | null };
  runners: Record<string, number>;
  slots: number;
  slots_used: number;
  sweep_lag_seconds: number | null;
  deliveries: Record<string, number>;
  organizations: number;
}

type Samples = [labels: string, value: number][];

/** Writes one figure with its help; a value that is not known is left out, not called zero. */
function family(name: string, help: string, samples: Samples): string {
  const lines = samples.map(([labels, value]) => `${name}${labels && `{${labels}}`} ${value}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, ...lines, ""].join("\n");
}

function byStatus(counts: Record<string, number>, statuses: readonly string[]): Samples {
  return statuses.map((status) => [`status="${status}"`, counts[status] ?? 0]);
}

const known = (value: number | null): Samples => value === null ? [] : [["", value]];

const JOBS = ["AWAITING_APPROVAL", "QUEUED", "CLAIMED", "PROCESSING", "NEEDS_ATTENTION"] as const;
const RUNNERS = ["ONLINE", "DRAINING", "OFFLINE"] as const;
const DELIVERIES = ["PENDING", "DELIVERED", "KEPT", "FAILED"] as const;

/** Writes all of them. */
export function write(figures: Figures): string {
  const { waits } = figures;
  const quantiles: Samples =
    ([["0.5", waits.p50], ["0.95", waits.p95], ["0.99", waits.p99]] as const)
      .flatMap(([quantile, value]) =>
        known(value).map(([, at]): [string, number] => [`quantile="${quantile}"`, at])
      );
  return [
    family("runyard_jobs", "Unfinished jobs by status.", byStatus(figures.jobs, JOBS)),
    family("runyard_queue_oldest_seconds", "How long the oldest queued job has waited.", [[
      "",
      figures.oldest_queued_seconds,
    ]]),
    family(
      "runyard_queue_wait_seconds",
      "Waits of the jobs that ended within 5 minutes.",
      quantiles,
    ),
    family("runyard_jobs_ended_5m", "Jobs that ended within 5 minutes after they had waited.", [[
      "",
      waits.count,
    ]]),
    family("runyard_runners", "Runners by status.", byStatus(figures.runners, RUNNERS)),
    family("runyard_slots", "Slots of the runners that are online.", [["", figures.slots]]),
    family("runyard_slots_used", "Slots that run a job.", [["", figures.slots_used]]),
    family(
      "runyard_sweep_lag_seconds",
      "Since when the sweep has not run.",
      known(figures.sweep_lag_seconds),
    ),
    family(
      "runyard_deliveries",
      "Notifications of the last 30 days by status.",
      byStatus(figures.deliveries, DELIVERIES),
    ),
    family("runyard_organizations", "Organisations.", [["", figures.organizations]]),
  ].join("");
}

/** An installation that has set no credential shows nobody its figures. */
async function authorise(request: Request): Promise<void> {
  const wanted = read("METRICS_TOKEN");
  if (wanted !== undefined && await isEqual(bearerOf(request) ?? "", wanted)) return;
  throw new Answer(401, { code: "RY401", message: "The monitoring credential is not valid." });
}

export const handler = serveWith(async (request) => {
  await limit([[`metrics:address:${addressOf(request)}`, PER_ADDRESS]]);
  await authorise(request);
  const text = write(await call("installation_metrics", {}) as Figures);
  return new Response(text, {
    headers: {
      "content-type": "text/plain; version=0.0.4; charset=utf-8",
      "cache-control": "no-store",
    },
  });
}, "GET");
