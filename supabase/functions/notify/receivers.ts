/** The addresses that a message may be sent to, and the result of sending it. */

import { checkAddress, RECEIVER, type Target } from "../_shared/addresses.ts";
import { publicUrl } from "../_shared/env.ts";
import { type Outgoing, sendTo } from "../_shared/outgoing.ts";

/** The result of sending. */
export interface Outcome {
  status: "DELIVERED" | "KEPT" | "FAILED";
  http_status?: number;
  note: string;
  /** When the receiver accepts the next message. */
  retry_seconds?: number;
  /** The comment that has a pull request's results from now on. */
  comment_id?: number | null;
  /** Pull requests as a provider lists them. */
  pulls?: unknown[];
}

const TIMEOUT_MILLISECONDS = 10_000;

/** Refuses addresses inside, and this project's own: it would receive its own messages. */
export async function checkReceiver(address: string): Promise<Target> {
  if (!URL.canParse(address)) throw new Error("That is not an address.");
  const { username, password, host } = new URL(address);
  if (username || password) throw new Error("An address has no user name or password in it.");
  if (host === new URL(publicUrl()).host) {
    throw new Error("That is this project itself: it would receive its own messages.");
  }
  return await checkAddress(address, undefined, RECEIVER).catch((error) => {
    throw new Error(words(error));
  });
}

/** The words of an error as a sentence. */
export function words(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`.replace(/([^.])$/, "$1.");
}

/** Sends in bounded time. The runtime's own text of a failed connection contains the address, which is a secret. */
export async function sendInTime(target: Target, what: Omit<Outgoing, "signal">): Promise<Response> {
  const signal = AbortSignal.timeout(TIMEOUT_MILLISECONDS);
  return await sendTo(target, { ...what, signal }).catch((error) => {
    const isLate = error instanceof DOMException && error.name === "TimeoutError";
    const seconds = TIMEOUT_MILLISECONDS / 1000;
    throw new Error(isLate ? `no answer within ${seconds} s` : "the receiver cannot be reached");
  });
}
