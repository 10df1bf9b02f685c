// The log view: joins model, loader, scroller and painter, and does what the reader asks for.

import { el } from "./dom.js";
import { buildFrame, press } from "./frame.js";
import { icon } from "./icons.js";
import { attachKeys } from "./keys.js";
import { Loader } from "./loader.js";
import { LogModel, textOf } from "./model.js";
import { Painter } from "./painter.js";
import { Scroller, placeOf, topOf } from "./scroller.js";
import { Search } from "./search.js";
import { blankWords, footWords, hitWords, totalWords } from "./words.js";

const POLL_MS = 5_000;
const SAFETY_MS = 15_000;
const SEARCH_MS = 180;
const SEARCH_HERE_BYTES = 3_000_000;
// The bars that hide the page's edges: its bar and the log's own at the top, the menu of a narrow screen below.
const TOP_BAR = 120;
const BELOW = 96;
const LIVE = ["CLAIMED", "PROCESSING"];

export class LogView {
  constructor(host) {
    this.host = host;
    this.isWrapped = this.hasTimes = this.isFull = this.isFollowing = false;
    this.marked = lineOfAddress();
    this.search = new Search();
    this.parts = buildFrame(host, this.#handlers());
    this.scroller = new Scroller(this.parts.body, this.parts.canvas);
    this.painter = new Painter(this.parts.window, this.scroller);
    this.parts.body.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.parts.window.addEventListener("click", (event) => this.#clickedLine(event));
    this.detachKeys = attachKeys(this);
    this.moved = () => this.model && lineOfAddress() && this.goTo(lineOfAddress());
    window.addEventListener("hashchange", this.moved);
    this.resized = new ResizeObserver(() => this.#measure());
    this.resized.observe(this.parts.body);
    this.ticking = setInterval(() => this.isLive && this.#draw(), 1000);
    this.safety = setInterval(() => this.#lookAgain(), POLL_MS);
    this.changed();
  }

  close() {
    clearInterval(this.ticking);
    clearInterval(this.safety);
    this.resized.disconnect();
    this.detachKeys();
    window.removeEventListener("hashchange", this.moved);
    this.loader?.close();
  }

  /** Polls without a wake-up: often while the doorbell is disconnected, now and then otherwise. */
  #lookAgain() {
    const isWoken = this.host.getAttribute("link") === "live";
    if (!this.isLive || (isWoken && Date.now() - this.loader.pulledAt < SAFETY_MS)) return;
    this.loader.pull();
  }

  get isLive() {
    return Boolean(this.latest) && this.attempt === this.latest && LIVE.includes(this.host.getAttribute("status"));
  }

  /** The page said something new: another job, another attempt, more log, another status. */
  changed() {
    const job = this.host.getAttribute("job");
    const latest = Number(this.host.getAttribute("attempt") || 0);
    this.plan = JSON.parse(this.host.getAttribute("plan") || "null");
    this.phase = this.host.getAttribute("phase") || "Apply";
    const shown = [this.plan?.job, this.plan?.attempt, job, latest].join();
    if (shown !== this.shown) {
      const isContinued = this.model && this.plan && String(this.plan.job) === this.job && this.plan.attempt === this.attempt;
      Object.assign(this, { shown, job, latest });
      if (isContinued) this.#continue();
      else if (job && latest) this.#begin(latest);
      else this.#forget();
    }
    if (!this.loader) return this.#draw();
    const steps = this.attempt === latest ? JSON.parse(this.host.getAttribute("steps") || "[]") : [];
    this.model.setSteps([...(this.plan ? [this.plan.steps] : []), steps], !this.isLive, this.host.getAttribute("main"));
    this.#lay();
    this.loader.pull();
  }

  /** A job that has not been tried has no log: whatever was here is another's. */
  #forget() {
    this.loader?.close();
    this.loader = this.model = null;
    this.attempt = 0;
  }

  #begin(attempt) {
    this.loader?.close();
    this.attempt = attempt;
    this.model = new LogModel();
    this.search = new Search(this.parts.input.value);
    const parts = [...(this.plan ? [this.plan] : []), this.#lastPart()];
    this.loader = new Loader(parts, this.model, (seqs) => this.#arrived(seqs));
    this.#offer();
  }

  /** The apply has begun: its log follows the plan's, and the lines in view stay in view. */
  #continue() {
    this.attempt = this.latest;
    this.model.keepFolds();
    this.loader.add(this.#lastPart());
    this.#offer();
  }

  #lastPart() {
    // Only the latest attempt's day is known; the server finds the days of an earlier one.
    const day = this.attempt === this.latest ? this.host.getAttribute("day") : "";
    return { job: this.job, attempt: this.attempt, day };
  }

  #offer() {
    this.isFollowing = this.isLive && !this.marked;
    this.parts.download.href = this.loader.downloadUrl;
    const options = Array.from({ length: this.latest }, (_, at) => el("option", { value: at + 1 }, `Attempt ${at + 1}`));
    this.parts.attempts.replaceChildren(...options);
    this.parts.attempts.value = String(this.attempt);
    this.parts.attempts.hidden = this.latest < 2;
  }

  #arrived(seqs = []) {
    const hit = this.search.current;
    for (const seq of seqs) this.search.scan(this.model.chunks.get(seq));
    this.search.keep(hit);
    this.#lay();
    if (this.marked && !this.isMarkSeen) this.goTo(this.marked);
    if (this.search.isOn) this.#scanAll();
  }

  // ---- place and drawing

  /** Lays out again; what the reader looks at stays where it is, or the end stays in sight. */
  #lay() {
    const place = placeOf(this.model, this.scroller.top);
    this.model.layout();
    this.parts.body.hidden = !this.model.order.length; // what is hidden cannot be scrolled
    this.scroller.setHeight(this.model.height);
    const top = place && topOf(this.model, place);
    if (this.isFollowing) this.scroller.toEnd();
    else if (top !== null) this.scroller.top = top;
    this.#draw();
  }

  #scrolled() {
    if (this.scroller.isReaders()) this.isFollowing = this.isLive && this.scroller.isAtEnd();
    this.#draw();
  }

  #measure() {
    if (!this.model) return;
    const columns = this.isWrapped ? this.#columns() : 0;
    if (columns !== this.model.columns) {
      this.model.columns = columns;
      this.#lay();
    }
    if (this.isFollowing) this.scroller.toEnd();
    this.#draw();
  }

  #columns() {
    const probe = el("span", { style: "position:absolute;visibility:hidden" }, "0".repeat(100));
    this.parts.body.append(probe);
    const width = probe.getBoundingClientRect().width / 100;
    probe.remove();
    const gutter = this.hasTimes ? 148 : 76;
    return Math.max(20, Math.floor((this.parts.body.clientWidth - gutter) / width));
  }

  #draw() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      if (this.host.isConnected) this.#paint();
    });
  }

  #paint() {
    const isEmpty = !this.model?.order.length;
    const { parts } = this;
    const tools = [parts.field, parts.previous, parts.next, parts.wrap, parts.times, parts.download, parts.full];
    for (const part of [...tools, parts.body, parts.foot]) part.hidden = isEmpty;
    parts.blank.hidden = !isEmpty;
    parts.follow.hidden = isEmpty || !this.isLive;
    if (isEmpty) return this.#paintBlank();
    press(parts.follow, this.isFollowing);
    press(parts.wrap, this.isWrapped);
    press(parts.times, this.hasTimes);
    press(parts.full, this.isFull);
    parts.hits.textContent = hitWords(this.search, this.model);
    parts.total.textContent = totalWords(this.model);
    this.#say(parts.said, footWords(this));
    if (!this.scroller.room) return;
    this.loader.load(this.painter.paint(this));
  }

  #paintBlank() {
    const [title, text] = blankWords(this);
    this.#say(this.parts.blank, [el("span", { class: "ic" }, icon("scroll-text", "l")), el("b", {}, title), el("p", {}, text)]);
  }

  /** Replaces words only when they differ: a button must not vanish under the pointer. */
  #say(place, words) {
    const said = words.map((word) => word.textContent ?? word).join("|");
    if (place.said === said) return;
    place.said = said;
    place.replaceChildren(...words);
  }

  // ---- what the reader does

  #handlers() {
    return {
      search: (words) => this.#searchSoon(words),
      searchKey: (event) => this.#searchKey(event),
      step: (direction) => this.step(direction),
      follow: () => (this.isFollowing ? this.unfollow() : this.follow()),
      wrap: () => this.#toggle("isWrapped", "wrapped"),
      times: () => this.#toggle("hasTimes", "timed"),
      full: () => this.toggleFull(),
      newest: () => this.#speakNewest(),
      attempt: (value) => this.#chooseAttempt(Number(value)),
    };
  }

  #toggle(name, className) {
    this[name] = !this[name];
    this.host.classList.toggle(className, this[name]);
    this.parts.canvas.style.minWidth = "";
    this.#measure();
  }

  toggleFull() {
    this.#toggle("isFull", "full");
    this.parts.full.title = this.isFull ? "Leave full screen" : "Full screen";
  }

  #chooseAttempt(attempt) {
    this.marked = 0;
    this.#begin(attempt);
    this.changed();
  }

  #searchSoon(words) {
    clearTimeout(this.searching);
    this.searching = setTimeout(() => {
      this.search = new Search(words);
      if (this.search.isOn) this.#scanAll();
      this.#draw();
    }, SEARCH_MS);
  }

  async #scanAll() {
    const { search } = this;
    for (const seq of this.model.order) search.scan(this.model.chunks.get(seq));
    if (!search.current && search.count) this.step(1);
    if (search.isLoading) return;
    search.isLoading = true;
    const isWanted = (seq) => search === this.search && !search.isScanned(seq);
    const missing = this.model.order.filter(isWanted).reduce((sum, seq) => sum + this.model.chunks.get(seq).bytes, 0);
    // a long log is searched where it lies; a short one is here before the database would have answered
    if (missing > SEARCH_HERE_BYTES) await this.loader.findAll(search.words, isWanted, (seqs) => search.skip(seqs));
    await this.loader.loadAll(isWanted);
    search.isLoading = false;
    this.#draw();
  }

  /** Goes to the first line that has the first of these words which the log has at all. */
  async find(candidates) {
    for (const words of candidates) {
      if (!this.model) return;
      this.search = new Search(words);
      this.parts.input.value = words;
      await this.#scanAll();
      if (this.search.count) return;
    }
    this.#draw();
  }

  #searchKey(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      this.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      this.parts.input.value = "";
      this.#searchSoon("");
      this.parts.body.focus();
    }
  }

  step(direction) {
    const place = placeOf(this.model, this.scroller.top);
    const hit = this.search.step(direction, place?.seq ? place : { seq: 0, at: 0 });
    const block = hit && this.model.blockOfSeq(hit.seq);
    if (block) this.#show(block.first + hit.at);
  }

  /** Goes to a line and marks it, as its link does. */
  goTo(line) {
    if (!this.#show(line)) return;
    this.marked = line;
    this.isMarkSeen = true;
  }

  /** Brings a line into sight and opens its step; false when there is no such line. */
  #show(line) {
    let block = this.model.blockOfLine(line);
    if (!block) return false;
    this.isFollowing = false;
    // Also a step that is open stays so, whatever begins after it.
    block = this.#open(block.section.key, () => this.model.blockOfLine(line));
    const at = block.top + this.model.offsetIn(block, line - block.first);
    const { top, room } = this.scroller;
    if (at < top + 40 || at > top + room - 60) this.scroller.top = at - room / 2;
    this.#bringToSight(at);
    this.#draw();
    return true;
  }

  /** Scrolls the page too, when the requested place is above or below what can be seen of it. */
  #bringToSight(at) {
    const y = this.parts.body.getBoundingClientRect().top + at - this.scroller.top;
    if (y < TOP_BAR || y > innerHeight - BELOW) scrollBy({ top: y - innerHeight / 2, behavior: "instant" });
  }

  #open(key, find) {
    this.model.fold(key, false);
    this.model.layout();
    this.scroller.setHeight(this.model.height);
    return find();
  }

  #clickedLine(event) {
    const line = Number(event.target.closest?.("[data-line]")?.dataset.line);
    if (!line) return;
    event.preventDefault();
    history.replaceState(history.state, "", `#L${line}`);
    this.goTo(line);
  }

  fold(key, isFolded) {
    this.isFollowing = false;
    this.model.fold(key, isFolded);
    this.#lay();
  }

  /** Goes to the next or previous step and opens it. */
  stepTo(direction) {
    const heads = () => this.model.blocks.filter((block) => block.kind === "head");
    const here = heads().findLastIndex((block) => block.top <= this.scroller.top + 1);
    const key = heads().at(Math.min(heads().length - 1, Math.max(0, here + direction)))?.section.key;
    if (!key) return;
    this.isFollowing = false;
    this.scroller.top = this.#open(key, () => heads().find((block) => block.section.key === key)).top;
    this.#bringToSight(this.scroller.top);
    this.#draw();
  }

  follow() {
    this.isFollowing = this.isLive;
    this.#lay();
  }

  unfollow() {
    this.isFollowing = false;
    this.#draw();
  }

  #speakNewest() {
    const line = this.model.chunks.get(this.model.lastSeq)?.lines?.at(-1);
    this.parts.spoken.textContent = line === undefined ? "The newest line is not loaded." : textOf(line);
  }
}

/** The line that the page's address names; 0 for none. */
function lineOfAddress() {
  return Number(/^#L(\d+)$/.exec(location.hash)?.[1] ?? 0);
}
