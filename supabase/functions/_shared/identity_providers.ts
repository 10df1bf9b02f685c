/** Requests to identity providers: in bounded time, and no redirect is followed. */

import type { Target } from "./addresses.ts";
import { type Outgoing, sendTo } from "./outgoing.ts";

const TIMEOUT_MILLISECONDS = 5000;

/** The provider itself does not answer: an identity cannot be checked. */
export class ProviderAway extends Error {}

/** Asks a provider; its redirects and refusals are answers, silence and failures of its own are not. */
export async function ask(target: Target, options: Omit<Outgoing, "signal"> = {}): Promise<Response> {
  const { url } = target;
  const signal = AbortSignal.timeout(TIMEOUT_MILLISECONDS);
  let response: Response;
  try {
    const answer = await sendTo(target, { ...options, signal });
    // Whole, while the time is counted: one that stops in the middle has not answered.
    response = answer.body === null ? answer : new Response(await answer.arrayBuffer(), answer);
  } catch (error) {
    // Not allowed to ask is for an operator to change, not for a moment to pass.
    if (error instanceof Error && error.name === "NotCapable") throw error;
    throw new ProviderAway(`${url.host}: ${error instanceof Error ? error.message : error}`);
  }
  if (response.status < 500 && response.status !== 429) return response;
  throw new ProviderAway(`${url.host} answered ${response.status}`);
}
