// Search in a log: plain text, without regard to case. Chunks are scanned when they are loaded; hits know chunk, line and column.

import { textOf } from "./model.js";

export const MAX_HITS = 20_000;

export class Search {
  constructor(words = "") {
    this.words = words.toLowerCase();
    this.bySeq = new Map();
    this.count = 0;
    this.now = -1;
    this.sorted = null;
  }

  get isOn() {
    return this.words.length > 0;
  }

  scan(chunk) {
    if (!this.isOn || !chunk.lines || this.bySeq.has(chunk.seq) || this.count >= MAX_HITS) return;
    const hits = [];
    chunk.lines.forEach((line, at) => {
      for (const column of columnsOf(textOf(line), this.words)) hits.push({ seq: chunk.seq, at, column });
    });
    this.bySeq.set(chunk.seq, hits);
    this.count += hits.length;
    this.sorted = null;
  }

  /** Takes the server's word that a chunk has no hit. */
  skip(seqs) {
    for (const seq of seqs) if (!this.bySeq.has(seq)) this.bySeq.set(seq, []);
    this.sorted = null;
  }

  isScanned(seq) {
    return this.bySeq.has(seq) || this.count >= MAX_HITS;
  }

  hits() {
    this.sorted ??= [...this.bySeq.keys()].sort((a, b) => a - b).flatMap((seq) => this.bySeq.get(seq));
    return this.sorted;
  }

  /** Goes to the next hit, or with -1 to the previous; from where the reader is when it is the first step. */
  step(direction, from) {
    const hits = this.hits();
    if (!hits.length) return null;
    const current = this.current;
    if (!current) {
      const next = hits.findIndex((hit) => hit.seq > from.seq || (hit.seq === from.seq && hit.at >= from.at));
      this.now = direction > 0 ? Math.max(next, 0) : (next <= 0 ? hits.length : next) - 1;
    } else {
      this.now = (this.now + direction + hits.length) % hits.length;
    }
    return hits[this.now];
  }

  get current() {
    return this.now >= 0 ? (this.hits()[this.now] ?? null) : null;
  }

  /** Hits that arrive before the current one must not change which one it is. */
  keep(hit) {
    if (hit) this.now = this.hits().findIndex((one) => one.seq === hit.seq && one.at === hit.at && one.column === hit.column);
  }

  columns(line) {
    return this.isOn ? columnsOf(textOf(line), this.words) : [];
  }
}

function columnsOf(text, words) {
  const lower = text.toLowerCase();
  // a few letters change length in lower case; then columns would be off, so only equal lengths are marked exactly
  const where = lower.length === text.length ? lower : text;
  const columns = [];
  for (let at = where.indexOf(words); at >= 0; at = where.indexOf(words, at + words.length)) columns.push(at);
  return columns;
}
