// A supabase-js client that follows commands from stdin (one JSON document a line) and reports on stdout.
import { createClient, RealtimeChannel } from "@supabase/supabase-js";

const [url, key] = Deno.args;
const client = createClient(url, key, {
  auth: { persistSession: false, autoRefreshToken: false },
  realtime: { vsn: "1.0.0" },
});
const channels = new Map<string, RealtimeChannel>();

// deno-lint-ignore no-explicit-any
type Json = any;

function tell(event: Json) {
  console.log(JSON.stringify(event));
}

function subscribe({ name, config, bindings }: Json) {
  const channel = client.channel(name, { config });
  for (const binding of bindings ?? []) {
    channel.on("postgres_changes", binding, (change: Json) => tell({ kind: "change", name, change }));
  }
  channel.on("broadcast", { event: "*" }, (message: Json) => tell({ kind: "broadcast", name, message }));
  channel.on("system", {}, (message: Json) => tell({ kind: "system", name, message }));
  channel.subscribe((status: string, error?: Error) => tell({ kind: "status", name, status, error: error?.message }));
  channels.set(name, channel);
}

async function perform(command: Json): Promise<Json> {
  const channel = channels.get(command.name)!;
  switch (command.op) {
    case "auth":
      return await client.realtime.setAuth(command.token);
    case "subscribe":
      return subscribe(command);
    case "unsubscribe":
      return await channel.unsubscribe();
    default:
      throw new Error(`unknown command ${command.op}`);
  }
}

const decoder = new TextDecoder();
let rest = "";
tell({ kind: "ready" });
for await (const chunk of Deno.stdin.readable) {
  const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
  rest = lines.pop()!;
  for (const line of lines) {
    const command = JSON.parse(line);
    try {
      tell({ kind: "done", op: command.op, result: (await perform(command)) ?? null });
    } catch (error) {
      tell({ kind: "failed", op: command.op, error: String(error) });
    }
  }
}
await client.removeAllChannels();
Deno.exit(0);
