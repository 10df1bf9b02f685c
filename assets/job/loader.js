// Loads a log's index and lines, one question at a time, and forgets what is far away when it becomes too much.

import { LogError, LogSource, pagesOf, partOf } from "./source.js";

const KEEP_BYTES = 48_000_000;
const RETRY_MS = 2000;
const FIND_CHUNKS = 500;

export class Loader {
  constructor(parts, model, onChange) {
    this.sources = parts.map((part, at) => new LogSource(part, at));
    this.model = model;
    this.onChange = onChange;
    this.loading = new Set();
    this.problem = "";
    this.pulledAt = 0;
    this.isClosed = false;
  }

  get isIndexed() {
    return this.sources.some((source) => source.isIndexed);
  }

  get downloadUrl() {
    return this.sources[this.sources.length - 1].downloadUrl;
  }

  /** Reads another log after those that are known. */
  add(part) {
    this.sources.push(new LogSource(part, this.sources.length));
  }

  close() {
    this.isClosed = true;
    for (const source of this.sources) source.close();
  }

  /** Asks which chunks there are. */
  async pull() {
    if (this.isPulling) {
      this.isAgain = true;
      return;
    }
    this.isPulling = true;
    this.pulledAt = Date.now();
    await this.#guarded(() => this.#pullAll());
    this.isPulling = false;
    if (this.isAgain && !this.isClosed) {
      this.isAgain = false;
      await this.pull();
    }
  }

  /** Only the last part grows; one before it is read again only while it has a gap. */
  async #pullAll() {
    for (const source of this.sources) {
      const isLast = source.part === this.sources.length - 1;
      if (isLast || !source.isIndexed || this.model.hasGap(source.part)) await this.#pullPart(source);
    }
  }

  async #pullPart(source) {
    let after = this.model.askAfter(source.part);
    for (;;) {
      const answer = await source.index(after);
      const isNew = this.model.addIndex(answer);
      for (const { seq, lines } of answer.pages) this.model.setLines(seq, lines);
      const isFirst = !source.isIndexed;
      source.isIndexed = true;
      if (isNew || isFirst) this.onChange();
      if (!answer.more) return;
      after = answer.chunks[answer.chunks.length - 1][0];
    }
  }

  /** Loads chunks that are in sight. */
  load(chunks) {
    const missing = chunks.filter((chunk) => !chunk.lines && !this.loading.has(chunk.seq));
    for (const page of pagesOf(missing)) this.#page(page);
  }

  /** Loads, one page after the other, all chunks that somebody still wants. */
  async loadAll(isWanted) {
    const missing = this.model.order.filter((seq) => isWanted(seq) && !this.loading.has(seq));
    for (const page of pagesOf(missing.map((seq) => this.model.chunks.get(seq)))) {
      if (this.isClosed || !page.some(isWanted)) return;
      await this.#page(page);
    }
  }

  /** Asks the server where words are, span by span, and tells where they are not. */
  async findAll(words, isWanted, onAbsent) {
    for (const source of this.sources) {
      const last = this.model.ofPart(source.part).at(-1) ?? 0;
      for (let from = source.from + 1; from <= last; from += FIND_CHUNKS) {
        const to = Math.min(last, from + FIND_CHUNKS - 1);
        await this.#guarded(async () => {
          const found = await source.find(words, from, to);
          onAbsent(this.model.order.filter((seq) => seq >= from && seq <= to && !found.has(seq)));
        });
        if (this.isClosed) return;
        await this.loadAll((seq) => seq >= from && seq <= to && isWanted(seq));
      }
    }
  }

  async #page(seqs) {
    for (const seq of seqs) this.loading.add(seq);
    await this.#guarded(async () => {
      const pages = await this.sources[partOf(seqs[0])].lines(seqs);
      for (const { seq, lines } of pages) this.model.setLines(seq, lines);
      this.#evict(seqs);
    });
    for (const seq of seqs) this.loading.delete(seq);
    if (!this.isClosed) this.onChange(seqs);
  }

  async #guarded(work) {
    try {
      await work();
      this.problem = "";
    } catch (error) {
      if (this.isClosed || error.name === "AbortError") return;
      this.problem = error instanceof LogError ? error.message : "The log could not be read: the dashboard did not answer.";
      this.onChange();
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  #evict([near]) {
    const loaded = this.model.order.filter((seq) => this.model.chunks.get(seq).lines);
    let bytes = loaded.reduce((sum, seq) => sum + this.model.chunks.get(seq).bytes, 0);
    loaded.sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
    for (const seq of loaded) {
      if (bytes <= KEEP_BYTES) return;
      bytes -= this.model.chunks.get(seq).bytes;
      this.model.forget(seq);
    }
  }
}
