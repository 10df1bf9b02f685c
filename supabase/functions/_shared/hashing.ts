/**
 * bcrypt in threads of its own, a few at a time, each for a limited time. Organisations take turns, so that a flood of one
 * delays its own logins. Hosted functions have no threads; there each runs in its own process, with a limit of its own.
 */

import bcrypt from "bcryptjs";
import { Answer } from "./http.ts";

const THREADS = 2;
/** One thread is left to the others, however much one organisation asks for. */
const THREADS_OF_ONE = THREADS - 1;
/** While others are served, too, one rests after each turn so many times as long as that took. */
const REST = 3;
/** An organisation counts as alone when no other was served for so long. */
const COMPANY_MILLISECONDS = 10_000;
const LIMIT_MILLISECONDS = 15_000;
const MOST_WAITING = 500;
const MOST_OF_ONE = 100;
const SCRIPT = new URL("./bcrypt_worker.ts", import.meta.url);

const BUSY = { code: "RY503", message: "Too many are signing in.", hint: "Try again in a moment." };

function start(): Worker | undefined {
  try {
    return new Worker(SCRIPT, { type: "module" });
  } catch {
    return undefined;
  }
}

type Comparison = { owner: string; secret: string; hash: string; done: PromiseWithResolvers<boolean> };

/** The waiting hashes, by organisation: the next one is always of the organisation that has waited longest for its turn. */
class Turns {
  #waiting = new Map<string, Comparison[]>();
  #running = new Map<string, number>();
  #size = 0;
  #lastOwner = "";
  #changedAt = -Infinity;

  add(comparison: Comparison): void {
    const own = this.#waiting.get(comparison.owner) ?? [];
    if (own.length >= MOST_OF_ONE || this.#size >= MOST_WAITING) {
      throw new Answer(503, BUSY, { "retry-after": "5" });
    }
    own.push(comparison);
    this.#waiting.set(comparison.owner, own);
    this.#size++;
  }

  next(): Comparison | undefined {
    for (const [owner, own] of this.#waiting) {
      const running = this.#running.get(owner) ?? 0;
      if (running >= THREADS_OF_ONE) continue;
      this.#running.set(owner, running + 1);
      if (owner !== this.#lastOwner) {
        [this.#lastOwner, this.#changedAt] = [owner, performance.now()];
      }
      // Behind the others: a map keeps the order in which its keys came.
      this.#waiting.delete(owner);
      if (own.length > 1) this.#waiting.set(owner, own);
      this.#size--;
      return own.shift();
    }
    return undefined;
  }

  /** The pause of an organisation after a turn: a quarter of one processor is the most that its flood costs others. */
  restOf(owner: string, milliseconds: number): number {
    const isAlone = performance.now() - this.#changedAt >= COMPANY_MILLISECONDS;
    return isAlone || !this.#waiting.has(owner) ? 0 : REST * milliseconds;
  }

  end(owner: string): void {
    const left = (this.#running.get(owner) ?? 1) - 1;
    if (left > 0) this.#running.set(owner, left);
    else this.#running.delete(owner);
  }
}

/** One thread, which works while anything waits that it may do. */
class Lane {
  #thread: Worker | undefined;
  #isBusy = false;

  async work(turns: Turns): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    for (let next = turns.next(); next !== undefined; next = turns.next()) {
      const { owner, done } = next;
      const beganAt = performance.now();
      await this.#run(next.secret, next.hash).then(done.resolve, done.reject);
      release(owner, turns.restOf(owner, performance.now() - beganAt));
    }
    this.#isBusy = false;
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

const turns = new Turns();
const lanes = Array.from({ length: THREADS }, () => new Lane());

function work(): void {
  for (const lane of lanes) lane.work(turns);
}

function release(owner: string, milliseconds: number): void {
  setTimeout(() => {
    turns.end(owner);
    work();
  }, milliseconds);
}

/** Tells whether a secret belongs to a hash; `owner` is the organisation whose turn is used. */
export async function compare(secret: string, hash: string, owner: string): Promise<boolean> {
  const done = Promise.withResolvers<boolean>();
  turns.add({ owner, secret, hash, done });
  work();
  return await done.promise;
}
