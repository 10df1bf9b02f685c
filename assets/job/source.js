// Fetches a log in pieces with the session's cookie. Nothing of a log passes through the dashboard's own state.

const PAGE_BYTES = 768 * 1024;
const PAGE_CHUNKS = 200;

export class LogSource {
  constructor(jobId, attempt, day) {
    this.base = `/api/jobs/${encodeURIComponent(jobId)}/log`;
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
  index(after, withLines) {
    return this.#get(`${this.base}/index?${this.query}&after=${after}${withLines ? "&lines=1" : ""}`);
  }

  /** The lines of some chunks that lie together. */
  lines(seqs) {
    return this.#get(`${this.base}/lines?${this.query}&from=${seqs[0]}&to=${seqs[seqs.length - 1]}`);
  }

  /** Which chunks of a span have these words in them. */
  find(words, from, to) {
    return this.#get(`${this.base}/find?${this.query}&from=${from}&to=${to}&q=${encodeURIComponent(words)}`);
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
