// Fetches a log in pieces with the session's cookie. Nothing of a log passes through the dashboard's own state.

const PAGE_BYTES = 768 * 1024;
const PAGE_CHUNKS = 200;
// A run's apply has a log of its own, after its plan's: here its chunks are numbered from a billion on.
const PART = 1_000_000_000;

/** The part of the log that a chunk belongs to. */
export function partOf(seq) {
  return Math.floor((seq - 1) / PART);
}

/** The number before the first chunk of a part. */
export function baseOf(part) {
  return part * PART;
}

export class LogSource {
  constructor({ job, attempt, day }, part) {
    this.part = part;
    this.from = baseOf(part);
    this.isIndexed = false;
    this.base = `/api/jobs/${encodeURIComponent(job)}/log`;
    this.attempt = attempt;
    this.query = `attempt=${attempt}${day ? `&day=${encodeURIComponent(day)}` : ""}`;
    this.aborter = new AbortController();
  }

  close() {
    this.aborter.abort();
  }

  get downloadUrl() {
    return `${this.base}.txt?attempt=${this.attempt}`;
  }

  /** Lists the chunks after one, a few new ones with their lines; `more` is true when there are more. */
  async index(after) {
    const answer = await this.#get(`${this.base}/index?${this.query}&after=${after - this.from}${this.isIndexed ? "&lines=1" : ""}`);
    for (const chunk of answer.chunks) chunk[0] += this.from;
    return { ...answer, pages: this.#numbered(answer.pages ?? []) };
  }

  /** The lines of some chunks that lie together. */
  async lines(seqs) {
    const [first, last] = [seqs[0], seqs[seqs.length - 1]].map((seq) => seq - this.from);
    return this.#numbered((await this.#get(`${this.base}/lines?${this.query}&from=${first}&to=${last}`)).chunks);
  }

  /** The chunks of a span that contain these words. */
  async find(words, from, to) {
    const span = `from=${from - this.from}&to=${to - this.from}`;
    const answer = await this.#get(`${this.base}/find?${this.query}&${span}&q=${encodeURIComponent(words)}`);
    return new Set(answer.seqs.map((seq) => seq + this.from));
  }

  #numbered(pages) {
    return pages.map(({ seq, lines }) => ({ seq: seq + this.from, lines }));
  }

  async #get(url) {
    const answer = await fetch(url, { signal: this.aborter.signal, credentials: "same-origin", headers: { Accept: "application/json" } });
    if (answer.status === 401) throw new LogError("You are signed out. Sign in again to read on.");
    if (answer.status === 404) throw new LogError("This log is not here any more. It may be past its retention period.");
    if (!answer.ok) throw new LogError("The log could not be read. Nothing was changed.");
    return answer.json();
  }
}

export class LogError extends Error {}

/** Splits chunks into requests: together, and no more than a page's worth of bytes each. */
export function pagesOf(chunks) {
  const pages = [];
  let page = [];
  let bytes = 0;
  for (const chunk of chunks) {
    const isFull = page.length >= PAGE_CHUNKS || bytes + chunk.bytes > PAGE_BYTES;
    const isApart = page.length && chunk.seq !== page[page.length - 1] + 1;
    if (page.length && (isFull || isApart)) {
      pages.push(page);
      page = [];
      bytes = 0;
    }
    page.push(chunk.seq);
    bytes += chunk.bytes;
  }
  if (page.length) pages.push(page);
  return pages;
}
