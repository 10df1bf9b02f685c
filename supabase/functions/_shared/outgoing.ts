/** Requests to addresses that others wrote: sent to the very address that was checked, no redirect is followed, and an answer ends. */

import https from "node:https";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { Target } from "./addresses.ts";

export type Outgoing = { method?: string; headers?: HeadersInit; body?: string; signal: AbortSignal };

const EMPTY = [204, 205, 304];
/** A list of a hundred pull requests has a few. */
const MOST_BYTES = 16 * 1024 * 1024;

/** Ends an answer that has no end: readers keep the whole of it in memory. */
function bounded(answer: Response): Response {
  if (answer.body === null) return answer;
  let left = MOST_BYTES;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, controller) {
      left -= part.byteLength;
      if (left < 0) controller.error(new Error(`the answer has more than ${MOST_BYTES} bytes`));
      else controller.enqueue(part);
    },
  });
  return new Response(answer.body.pipeThrough(limit), answer);
}

function responseOf(answer: IncomingMessage): Response {
  const status = answer.statusCode ?? 0;
  const headers = new Headers();
  for (const [name, values] of Object.entries(answer.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  if (EMPTY.includes(status)) return new Response(null, { status, headers });
  return new Response(Readable.toWeb(answer) as ReadableStream, { status, headers });
}

/** Sends a request; `fetch` would resolve the name again, and could be led elsewhere. */
export async function sendTo(target: Target, options: Outgoing): Promise<Response> {
  return bounded(await send(target, options));
}

function send({ url, ip }: Target, options: Outgoing): Promise<Response> {
  if (ip === undefined) return fetch(url, { ...options, redirect: "manual" });
  const { method, body, signal } = options;
  const headers = { ...Object.fromEntries(new Headers(options.headers)), host: url.host };
  const to = { host: ip, port: url.port || 443, path: url.pathname + url.search };
  const name = url.hostname === ip ? {} : { servername: url.hostname };
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => reject(signal.aborted ? signal.reason : error);
    const receive = (answer: IncomingMessage) => {
      try {
        resolve(responseOf(answer));
      } catch (error) {
        fail(error);
      }
    };
    https.request({ ...to, ...name, method, headers, signal, agent: false }, receive)
      .on("error", fail).end(body);
  });
}
