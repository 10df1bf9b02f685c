/** Requests to addresses that others wrote: sent to the very address that was checked, and no redirect is followed. */

import https from "node:https";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { Target } from "./addresses.ts";

export interface Outgoing {
  method?: string;
  headers?: HeadersInit;
  body?: string;
  signal: AbortSignal;
}

const EMPTY = [204, 205, 304];

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
export function sendTo({ url, ip }: Target, options: Outgoing): Promise<Response> {
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
