/** The installation's figures in the text format that Prometheus reads, for anyone who has the monitoring credential. */

import { call, limit } from "../_shared/database.ts";
import { addressOf, serveWith } from "../_shared/http.ts";
import { needCredential } from "../_shared/secrets.ts";

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

const known = (value: number | null, labels = ""): Samples => value === null ? [] : [[labels, value]];

const JOBS = ["AWAITING_APPROVAL", "QUEUED", "CLAIMED", "PROCESSING", "NEEDS_ATTENTION"] as const;
const RUNNERS = ["ONLINE", "DRAINING", "OFFLINE"] as const;
const DELIVERIES = ["PENDING", "DELIVERED", "KEPT", "FAILED"] as const;

/** Writes all of them. */
export function write(figures: Figures): string {
  const { waits } = figures;
  const quantiles = ([["0.5", waits.p50], ["0.95", waits.p95], ["0.99", waits.p99]] as const)
    .flatMap(([quantile, value]) => known(value, `quantile="${quantile}"`));
  const families: [string, string, Samples][] = [
    ["jobs", "Unfinished jobs by status.", byStatus(figures.jobs, JOBS)],
    ["queue_oldest_seconds", "How long the oldest queued job has waited.", known(figures.oldest_queued_seconds)],
    ["queue_wait_seconds", "Waits of the jobs that ended within 5 minutes.", quantiles],
    ["jobs_ended_5m", "Jobs that ended within 5 minutes after they had waited.", known(waits.count)],
    ["runners", "Runners by status.", byStatus(figures.runners, RUNNERS)],
    ["slots", "Slots of the runners that are online.", known(figures.slots)],
    ["slots_used", "Slots that run a job.", known(figures.slots_used)],
    ["sweep_lag_seconds", "Since when the sweep has not run.", known(figures.sweep_lag_seconds)],
    ["deliveries", "Notifications of the last 30 days by status.", byStatus(figures.deliveries, DELIVERIES)],
    ["organizations", "Organisations.", known(figures.organizations)],
  ];
  return families.map(([name, help, samples]) => family(`runyard_${name}`, help, samples)).join("");
}

export const handler = serveWith(async (request) => {
  await limit([[`metrics:address:${addressOf(request)}`, PER_ADDRESS]]);
  await needCredential(request, "METRICS_TOKEN", "monitoring");
  const text = write(await call("installation_metrics", {}) as Figures);
  const type = "text/plain; version=0.0.4; charset=utf-8";
  return new Response(text, { headers: { "content-type": type, "cache-control": "no-store" } });
}, "GET");
