// Drains a graphile-worker queue, with a pool that has worked before. Arguments: database URL, jobs, jobs before the clock
// starts, workers, "plain" or "batched".
import { createRequire } from "node:module";
import process from "node:process";
const require = createRequire(process.cwd() + "/");
const { runOnce, makeWorkerUtils, Logger } = require("graphile-worker");
const { Pool } = require("pg");
const [url, jobs, before, workers, mode] = process.argv.slice(2);
const logger = new Logger(() => () => {});
const pgPool = new Pool({ connectionString: url, max: Number(workers) + 2, min: Number(workers) });
const utils = await makeWorkerUtils({ pgPool, logger });
await utils.migrate();
const preset = mode === "batched"
  ? { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } }
  : {};
let done = 0;
async function drain(count) {
  await pgPool.query("select graphile_worker.add_job('work', json_build_object('n', n)) from generate_series(1, $1::int) as n", [count]);
  await pgPool.query("vacuum analyze graphile_worker._private_jobs");
  done = 0;
  const began = process.hrtime.bigint();
  await runOnce({
    pgPool, concurrency: Number(workers), noHandleSignals: true, logger, taskList: { work: () => { done += 1; } }, preset,
  });
  return Number(process.hrtime.bigint() - began) / 1e9;
}
await drain(before);
const seconds = await drain(jobs);
console.log(JSON.stringify({ done, seconds }));
process.exit(0);
