/**
 * bcrypt where it holds nobody up: in threads of its own, a few at a time, each for a limited time.
 * Hosted functions have no threads; there each runs in its own process, with a limit of its own.
 */

import bcrypt from "bcryptjs";
import { Answer } from "./http.ts";

const THREADS = 2;
const LIMIT_MILLISECONDS = 15_000;
const MOST_WAITING = 500;
const SCRIPT = new URL("./bcrypt_worker.ts", import.meta.url);

const BUSY = { code: "RY503", message: "Too many are signing in.", hint: "Try again in a moment." };

function start(): Worker | undefined {
  try {
    return new Worker(SCRIPT, { type: "module" });
  } catch {
    return undefined;
  }
}

/** One thread: what it is given is done in turn. */
class Lane {
  waiting = 0;
  #thread: Worker | undefined;
  #last: Promise<unknown> = Promise.resolve();

  compare(secret: string, hash: string): Promise<boolean> {
    this.waiting++;
    const work = this.#last.then(() => this.#run(secret, hash)).finally(() => this.waiting--);
    this.#last = work.catch(() => {});
    return work;
  }

  #run(secret: string, hash: string): Promise<boolean> {
    const thread = this.#thread ??= start();
    if (thread === undefined) return bcrypt.compare(secret, hash);
    return new Promise((resolve, reject) => {
      const giveUp = (reason: string) => {
        clearTimeout(timer);
        thread.terminate();
        this.#thread = undefined;
        console.error(`a comparison was given up: ${reason}`);
        reject(new Answer(503, BUSY, { "retry-after": "5" }));
      };
      const timer = setTimeout(() => giveUp("it took too long"), LIMIT_MILLISECONDS);
      thread.onmessage = ({ data }) => {
        clearTimeout(timer);
        resolve(data as boolean);
      };
      thread.onerror = (event) => {
        event.preventDefault();
        giveUp(event.message);
      };
      thread.postMessage([secret, hash]);
    });
  }
}

const lanes = Array.from({ length: THREADS }, () => new Lane());

/** Tells whether a secret belongs to a hash. */
export function compare(secret: string, hash: string): Promise<boolean> {
  const lane = lanes.reduce((best, each) => each.waiting < best.waiting ? each : best);
  if (lane.waiting >= MOST_WAITING) throw new Answer(503, BUSY, { "retry-after": "5" });
  return lane.compare(secret, hash);
}
