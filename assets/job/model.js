// The model of a log: which chunks there are, which of them are loaded, what is folded,
// and where on the page each line would be. No DOM and no network in here.

import { baseOf, partOf } from "./source.js";

export const LINE = 20;
export const HEAD = 32;
export const GAP = 37;

const OPEN_STATUSES = new Set(["RUNNING", "FAILED", "NEEDS_ATTENTION"]);

/** The text of an encoded line: a string, or text and class names in turn. */
export function textOf(line) {
  if (typeof line === "string") return line;
  let text = "";
  for (let at = 0; at < line.length; at += 2) text += line[at];
  return text;
}

export class LogModel {
  constructor() {
    this.chunks = new Map(); // seq → {seq, step, count, bytes, at, lines}
    this.order = [];
    this.folds = new Map(); // section key → what the reader chose
    this.steps = []; // for each part: step name → {title, status, from_ms, to_ms}
    this.isOver = false;
    this.columns = 0; // characters per row when lines wrap; 0 when they do not
    this.blocks = [];
    this.height = 0;
    this.lineTotal = 0;
    this.byteTotal = 0;
  }

  get lastSeq() {
    return this.order.length ? this.order[this.order.length - 1] : 0;
  }

  /** After which chunk to ask: before the first gap, for what is missing may still arrive. */
  askAfter(part) {
    const own = this.ofPart(part);
    const gap = own.findIndex((seq, at) => seq !== baseOf(part) + at + 1);
    return baseOf(part) + (gap < 0 ? own.length : gap);
  }

  hasGap(part) {
    return this.askAfter(part) !== (this.ofPart(part).at(-1) ?? baseOf(part));
  }

  ofPart(part) {
    return this.order.filter((seq) => partOf(seq) === part);
  }

  /** Takes an index answer; returns whether anything is new. */
  addIndex({ steps, chunks }) {
    let isNew = false;
    for (const [seq, step, count, bytes, at] of chunks) {
      if (this.chunks.has(seq)) continue;
      this.chunks.set(seq, { seq, step: steps[step], count, bytes, at, lines: null });
      this.order.push(seq);
      isNew = true;
    }
    if (isNew) this.order.sort((a, b) => a - b);
    return isNew;
  }

  setLines(seq, lines) {
    const chunk = this.chunks.get(seq);
    if (!chunk) return;
    chunk.lines = lines;
    chunk.count = lines.length;
    chunk.rows = null;
  }

  forget(seq) {
    const chunk = this.chunks.get(seq);
    if (chunk) chunk.lines = chunk.rows = null;
  }

  setSteps(steps, isOver, main) {
    this.steps = steps.map((part) => new Map(part.map((step) => [step.name, step])));
    this.isOver = isOver;
    this.main = main;
  }

  stepOf(section) {
    return this.steps[section.part]?.get(section.step);
  }

  /** Runs of chunks of one step, in order of arrival. */
  sections() {
    const sections = [];
    for (const seq of this.order) {
      const chunk = this.chunks.get(seq);
      const last = sections[sections.length - 1];
      const part = partOf(seq);
      if (last && last.step === chunk.step && last.part === part) last.seqs.push(seq);
      else sections.push({ key: `${chunk.step}@${seq}`, step: chunk.step, part, seqs: [seq] });
    }
    return sections;
  }

  /** Finished steps are folded, the running and the failed one open; with neither, the one the job is about. */
  isFolded(section, sections) {
    const chosen = this.folds.get(section.key);
    if (chosen !== undefined) return chosen;
    const status = (one) => this.stepOf(one)?.status ?? "";
    if (OPEN_STATUSES.has(status(section))) return false;
    if (sections.some((one) => OPEN_STATUSES.has(status(one)))) return true;
    const main = sections.findLast((one) => one.step === this.main) ?? sections[sections.length - 1];
    return section !== main;
  }

  fold(key, isFolded) {
    this.folds.set(key, isFolded);
  }

  /** Leaves every step as it is now, whatever happens after it. */
  keepFolds() {
    const sections = this.sections();
    for (const section of sections) this.fold(section.key, this.isFolded(section, sections));
  }

  /** Lays everything out again: heads, gaps and runs of lines, each with its top and height. */
  layout() {
    const sections = this.sections();
    const cursor = { top: 0, line: 1, before: 0, part: 0, blocks: [] };
    this.byteTotal = 0;
    for (const section of sections) this.#laySection(section, sections, cursor);
    this.blocks = cursor.blocks;
    this.height = cursor.top;
    this.lineTotal = cursor.line - 1;
    return sections;
  }

  #laySection(section, sections, cursor) {
    const isFolded = this.isFolded(section, sections);
    const base = baseOf(section.part);
    if (section.part !== cursor.part) {
      Object.assign(cursor, { part: section.part, before: base });
      this.#push(cursor, { kind: "part", section }, HEAD);
    }
    const head = { kind: "head", section, isFolded, lines: 0 };
    this.#push(cursor, head, HEAD);
    for (const seq of section.seqs) {
      const chunk = this.chunks.get(seq);
      const missing = seq - cursor.before - 1;
      cursor.before = seq;
      if (missing > 0) this.#push(cursor, { kind: "gap", from: seq - missing - base, to: seq - 1 - base, section }, isFolded ? 0 : GAP);
      const block = { kind: "lines", chunk, first: cursor.line, section };
      this.#push(cursor, block, isFolded ? 0 : this.#heightOf(chunk));
      cursor.line += chunk.count;
      head.lines += chunk.count;
      this.byteTotal += chunk.bytes;
    }
  }

  #push(cursor, block, height) {
    cursor.blocks.push(Object.assign(block, { top: cursor.top, height }));
    cursor.top += height;
  }

  #heightOf(chunk) {
    if (!this.columns || !chunk.lines) return chunk.count * LINE;
    if (!chunk.rows || chunk.rowsFor !== this.columns) {
      chunk.rowsFor = this.columns;
      chunk.rows = prefixRows(chunk.lines, this.columns);
    }
    return chunk.rows[chunk.rows.length - 1] * LINE;
  }

  /** The start of a line of a block, in pixels below the block's top. */
  offsetIn(block, at) {
    return (this.columns && block.chunk.rows ? block.chunk.rows[at] : at) * LINE;
  }

  /** The line of a block at so many pixels below its top. */
  lineAt(block, pixels) {
    const row = Math.floor(pixels / LINE);
    const rows = this.columns ? block.chunk.rows : null;
    if (!rows) return Math.min(Math.max(row, 0), block.chunk.count - 1);
    return Math.max(0, upperBound(rows, row) - 1);
  }

  /** The index of the block at so many pixels from the top. */
  blockAt(pixels) {
    let low = 0;
    let high = this.blocks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.blocks[middle].top <= pixels) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The block that holds a line number. */
  blockOfLine(number) {
    return this.blocks.find((block) => block.kind === "lines" && number >= block.first && number < block.first + block.chunk.count);
  }

  blockOfSeq(seq) {
    return this.blocks.find((block) => block.kind === "lines" && block.chunk.seq === seq);
  }
}

function prefixRows(lines, columns) {
  const rows = new Array(lines.length + 1);
  rows[0] = 0;
  for (let at = 0; at < lines.length; at++) {
    rows[at + 1] = rows[at] + Math.max(1, Math.ceil(widthOf(textOf(lines[at])) / columns));
  }
  return rows;
}

/** Columns a text takes in a fixed-width font: tabs jump to the next multiple of eight. */
export function widthOf(text) {
  if (!text.includes("\t")) return text.length;
  let width = 0;
  for (const char of text) width += char === "\t" ? 8 - (width % 8) : 1;
  return width;
}

function upperBound(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
