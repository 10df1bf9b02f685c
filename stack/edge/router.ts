// Serves every folder of supabase/functions/ under /<name>, as hosted serves it under /functions/v1/<name>.
// Functions are written for hosted: each calls Deno.serve once. Here that call only hands over the handler.

import type { JWK } from "npm:jose@6.2.17";
import { TokenChecker } from "./tokens.ts";

type Handler = (request: Request, info: Deno.ServeHandlerInfo) => Response | Promise<Response>;
type Entry = { entrypoint: string; verify_jwt: boolean };
type Setup = { port: number; functions: Record<string, Entry>; jwks: JWK[]; issuer: string };
type Loaded = { handler: Handler; verifyJwt: boolean } | { error: string };

const setup: Setup = JSON.parse(Deno.env.get("RUNYARD_FUNCTIONS") ?? "{}");
const checker = new TokenChecker(setup.jwks, setup.issuer);
const serve = Deno.serve;
const loaded = new Map<string, Loaded>();

function captureHandler(): { handler?: Handler } {
  const captured: { handler?: Handler } = {};
  const capture = (...given: unknown[]) => {
    const options = given.find((item) => typeof item === "object" && item !== null) as { handler?: Handler } | undefined;
    captured.handler = (given.find((item) => typeof item === "function") as Handler | undefined) ?? options?.handler;
    return { finished: new Promise<void>(() => {}), shutdown: () => Promise.resolve(), ref() {}, unref() {} };
  };
  Object.assign(Deno, { serve: capture });
  return captured;
}

async function load(entry: Entry): Promise<Loaded> {
  const captured = captureHandler();
  try {
    const module = await import(entry.entrypoint);
    const handler: Handler | undefined = captured.handler ?? module.default?.fetch;
    if (handler === undefined) return { error: "it neither calls Deno.serve nor exports a fetch handler" };
    return { handler, verifyJwt: entry.verify_jwt };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

function refuse(status: number, code: string, message: string): Response {
  return Response.json({ code, message }, { status });
}

async function answer(request: Request, info: Deno.ServeHandlerInfo): Promise<Response> {
  const name = new URL(request.url).pathname.split("/")[1];
  const found = loaded.get(name);
  if (found === undefined) return refuse(404, "NOT_FOUND", "Requested function was not found");
  if ("error" in found) return refuse(503, "BOOT_ERROR", "Function failed to start (please check logs)");
  if (found.verifyJwt && request.method !== "OPTIONS" && !await checker.accepts(request.headers.get("authorization"))) {
    return refuse(401, "UNAUTHORIZED_INVALID_JWT_FORMAT", "Invalid JWT");
  }
  try {
    return await found.handler(request, info);
  } catch (error) {
    console.error(`${name}:`, error);
    return refuse(500, "WORKER_ERROR", "Function exited due to an error (please check logs)");
  }
}

for (const [name, entry] of Object.entries(setup.functions)) {
  const result = await load(entry);
  loaded.set(name, result);
  if ("error" in result) console.error(`${name} could not be loaded: ${result.error}`);
}
serve({ hostname: "127.0.0.1", port: setup.port, onListen: () => console.log(`serving ${[...loaded.keys()].join(", ")}`) }, answer);
