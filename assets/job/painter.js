// Puts the rows that are in sight into the page. Elements that stay are kept, so that a selection survives.

import { gapRow, headRow, lineRow, partRow } from "./rows.js";

const OVERSCAN = 400;

export class Painter {
  constructor(pane, scroller) {
    this.pane = pane;
    this.scroller = scroller;
    this.rows = new Map();
  }

  /** Paints what is in sight of a view; returns the chunks whose lines are not there yet. */
  paint(view) {
    const top = this.scroller.top;
    const range = { from: Math.max(0, top - OVERSCAN), until: top + this.scroller.room + OVERSCAN };
    const wanted = [];
    const seen = [];
    let first = null;
    for (let at = view.model.blockAt(range.from); at < view.model.blocks.length; at++) {
      const block = view.model.blocks[at];
      if (block.top > range.until) break;
      if (!block.height) continue;
      if (block.kind === "lines" && !block.chunk.lines) wanted.push(block.chunk);
      const begins = this.#block(view, block, range, seen);
      first ??= begins;
    }
    this.#put(seen, this.scroller.body.scrollTop + (first ?? 0) - top, view.isWrapped);
    return wanted;
  }

  /** Adds a block's rows that are in sight; returns where the first of them begins. */
  #block(view, block, { from, until }, seen) {
    const { model } = view;
    if (block.kind === "head") seen.push(this.#head(view, block));
    if (block.kind === "part") seen.push(this.#row(`p${view.phase}`, () => partRow(view.phase)));
    if (block.kind === "gap") seen.push(this.#row(`g${block.section.key}:${block.from}-${block.to}:${model.isOver}`, () => gapRow(block, model.isOver)));
    if (block.kind !== "lines") return block.top;
    const first = model.lineAt(block, Math.max(0, from - block.top));
    const last = model.lineAt(block, Math.max(0, Math.min(until - block.top, block.height - 1)));
    for (let at = first; at <= last; at++) seen.push(this.#line(view, block, at));
    return block.top + model.offsetIn(block, first);
  }

  #head(view, block) {
    const step = view.model.stepOf(block.section);
    // a running step's head is built again each time: its duration grows
    const tick = step?.from_ms && !step.to_ms ? Math.floor(Date.now() / 1000) : 0;
    const key = `h${block.section.key}:${block.isFolded}:${block.lines}:${tick}:${JSON.stringify(step ?? 0)}`;
    return this.#row(key, () => headRow(block, step, () => view.fold(block.section.key, !block.isFolded)));
  }

  #line(view, block, at) {
    const { chunk } = block;
    const { search, hasTimes } = view;
    const line = chunk.lines ? chunk.lines[at] : null;
    const here = block.first + at;
    const columns = line === null ? [] : search.columns(line);
    const hit = search.current;
    const current = hit && hit.seq === chunk.seq && hit.at === at ? hit.column : -1;
    const isOn = here === view.marked || current >= 0;
    const key = `${chunk.seq}:${at}:${here}:${line === null}:${isOn}:${current}:${columns.join()}:${search.words}:${hasTimes}`;
    const options = { columns, width: search.words.length, current, isOn, time: hasTimes ? chunk.at : "" };
    return this.#row(key, () => lineRow(line, here, options));
  }

  #row(key, make) {
    return [key, this.rows.get(key) ?? make()];
  }

  #put(seen, top, isWrapped) {
    const { pane } = this;
    const { body, canvas } = this.scroller;
    this.rows = new Map(seen);
    const kept = new Set(this.rows.values());
    for (const child of [...pane.children]) if (!kept.has(child)) child.remove();
    let next = pane.firstChild;
    for (const row of this.rows.values()) {
      if (row === next) next = next.nextSibling;
      else pane.insertBefore(row, next);
    }
    pane.style.top = `${top}px`;
    // the widest line seen so far decides how far one can scroll sideways
    const widest = isWrapped ? 0 : Math.max(pane.scrollWidth, parseInt(canvas.style.minWidth, 10) || 0);
    canvas.style.minWidth = widest > body.clientWidth ? `${widest}px` : "";
  }
}
