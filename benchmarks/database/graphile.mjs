// Fills or drains a graphile-worker queue. Arguments: database URL, jobs, workers, "fill", "plain" or "batched".
import { createRequire } from "node:module";
import process from "node:process";
const require = createRequire(process.cwd() + "/");
const { runOnce, makeWorkerUtils } = require("graphile-worker");
const [url, jobs, workers, mode] = process.argv.slice(2);
const quiet = new (require("graphile-worker").Logger)(() => () => {});
if (mode === "fill") {
  const utils = await makeWorkerUtils({ connectionString: url, logger: quiet });
  await utils.migrate();
  await utils.withPgClient((client) =>
    client.query("select graphile_worker.add_job('work', json_build_object('n', n)) from generate_series(1, $1::int) as n", [jobs]));
  await utils.release();
  console.log("{}");
  process.exit(0);
}
const preset = mode === "batched"
  ? { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } }
  : {};
let done = 0;
const began = process.hrtime.bigint();
await runOnce({
  connectionString: url, concurrency: Number(workers), maxPoolSize: Number(workers) + 2, noHandleSignals: true, logger: quiet,
  taskList: { work: () => { done += 1; } }, preset,
});
const seconds = Number(process.hrtime.bigint() - began) / 1e9;
console.log(JSON.stringify({ done, seconds }));
