// The reader's place in the log. A very long log is taller than a browser allows, so the canvas may be shorter than the log.

const MAX_CANVAS = 8_000_000; // browsers stop at 16 to 33 million pixels

export class Scroller {
  constructor(body, canvas) {
    this.body = body;
    this.canvas = canvas;
    this.height = 0;
  }

  setHeight(height) {
    this.height = height;
    this.canvas.style.height = `${Math.min(height, MAX_CANVAS)}px`;
  }

  /** The place in the log, in pixels, that is at the top of the body. */
  get top() {
    return this.body.scrollTop * this.#ratio();
  }

  set top(pixels) {
    this.body.scrollTop = Math.max(0, pixels / this.#ratio());
    this.ours = this.body.scrollTop;
  }

  get room() {
    return this.body.clientHeight;
  }

  toEnd() {
    this.top = this.height;
  }

  /** Says whether the last scrolling was the reader's and not ours. */
  isReaders() {
    const isTheirs = Math.abs(this.body.scrollTop - (this.ours ?? -9)) > 2;
    if (isTheirs) this.ours = undefined;
    return isTheirs;
  }

  isAtEnd() {
    return this.body.scrollTop + this.room >= this.body.scrollHeight - 4;
  }

  #ratio() {
    const short = Math.min(this.height, MAX_CANVAS) - this.room;
    return short > 0 ? Math.max(1, (this.height - this.room) / short) : 1;
  }
}

/** Remembers what is at the top, so that it can stay there when what is above it changes. */
export function placeOf(model, top) {
  if (!model.blocks.length) return null;
  const block = model.blocks[model.blockAt(top)];
  if (block.kind !== "lines") return { key: block.section?.key, over: top - block.top };
  const at = model.lineAt(block, top - block.top);
  return { seq: block.chunk.seq, at, over: top - block.top - model.offsetIn(block, at) };
}

/** The present position of a remembered place; null when it no longer exists. */
export function topOf(model, { key, seq, at, over }) {
  const block = seq ? model.blockOfSeq(seq) : model.blocks.find((one) => one.kind === "head" && one.section.key === key);
  return block ? block.top + (seq ? model.offsetIn(block, at) : 0) + over : null;
}
