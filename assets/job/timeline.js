// The timeline: states and steps on one axis. Open bars grow once a second.

import { duration, el, now, took } from "./dom.js";
import { icon } from "./icons.js";
import { markOf } from "./rows.js";

const STATE_MARKS = {
  AWAITING_APPROVAL: ["hand", "t-vio"],
  QUEUED: ["circle-dashed", "mut"],
  CLAIMED: ["circle-dot", "mut"],
  PROCESSING: ["circle-dot", "mut"],
  NEEDS_ATTENTION: ["triangle-alert", "t-org"],
};
const ROOM = 1.025; // a little air after now, so that an open bar is seen to be open

const word = (status) => status.toLowerCase().replaceAll("_", "-");

const WAITING = ["AWAITING_APPROVAL", "QUEUED", "NEEDS_ATTENTION"];

class RyTimeline extends HTMLElement {
  static observedAttributes = ["data", "short"];

  connectedCallback() {
    this.attributeChangedCallback();
  }

  disconnectedCallback() {
    clearInterval(this.ticking);
  }

  attributeChangedCallback() {
    if (!this.isConnected) return;
    clearInterval(this.ticking);
    this.line = JSON.parse(this.getAttribute("data") || "{}");
    this.draw();
    if (this.line.bars?.some((bar) => bar.from_ms && !bar.to_ms)) this.ticking = setInterval(() => this.draw(), 1000);
  }

  draw() {
    const { start_ms: start = 0, end_ms: end = 0, bars = [] } = this.line;
    if (!bars.length) return this.replaceChildren();
    const last = end || Math.max(now(), start + 1000);
    if (this.hasAttribute("short")) return this.replaceChildren(...short(bars, last));
    const span = Math.max(1000, last - start) * (end ? 1 : ROOM);
    this.replaceChildren(...axis(start, span, end), ...bars.flatMap((bar) => row(bar, start, span, last)));
  }
}

const spent = (bar, last) => bar.to_ms ? took(bar.to_ms - bar.from_ms) : duration(last - bar.from_ms);

/** States and steps side by side, each as long as it took; a wait longer than all the rest is broken. */
function short(bars, last) {
  const steps = bars.filter((bar) => bar.is_step && bar.from_ms);
  const states = bars.filter((bar) => !bar.is_step && bar.from_ms && !(bar.status === "PROCESSING" && steps.length));
  const shown = [...states, ...steps].sort((a, b) => a.from_ms - b.from_ms);
  const long = (bar) => Math.max(1, (bar.to_ms || last) - bar.from_ms);
  const waits = shown.filter((bar) => WAITING.includes(bar.status)).sort((a, b) => long(b) - long(a));
  const rest = shown.reduce((sum, bar) => sum + long(bar), 0) - (waits[0] ? long(waits[0]) : 0);
  const broken = waits[0] && rest > 0 && long(waits[0]) > rest ? waits[0] : null;
  const told = shown.map((bar) => `${bar.label} ${spent(bar, last)}`).join(", ");
  const parts = shown.flatMap((bar) => piece(bar, bar === broken ? rest / 2 : long(bar), bar === broken));
  return [el("span", { class: "ax", role: "img", "aria-label": broken ? `${told}, not to scale` : told }, ...parts)];
}

function piece(bar, size, isBroken) {
  const make = (part) => {
    const line = el("i", { title: `${bar.label}` });
    line.style.flex = String(Math.max(1, Math.round(size * part)));
    line.style.background = colourOf(bar);
    return line;
  };
  return isBroken ? [make(0.5), el("i", { class: "brk", title: "Not to scale" }), make(0.5)] : [make(1)];
}

function axis(start, span, end) {
  const tenths = span < 8000 ? { fractionalSecondDigits: 1 } : {}; // else two neighbours would show the same second
  const precise = span < 20 * 60_000 ? { second: "2-digit", ...tenths } : {};
  const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", ...precise });
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  const at = (part) => (span > 20 * 3_600_000 ? day : clock).format(new Date(start + span * part));
  const ticks = [0, 0.25, 0.5, 0.75].map((part) => el("span", {}, at(part)));
  ticks.push(el("span", {}, end ? at(1) : "now"));
  return [el("span", { class: "ax" }), el("span", { class: "ax" }), el("span", { class: "ax b num" }, ...ticks)];
}

function row(bar, start, span, last) {
  const isOpen = bar.from_ms > 0 && !bar.to_ms;
  const until = bar.to_ms || last;
  const classes = `${bar.is_step ? "st" : ""} ${isOpen ? "now" : ""}`.trim();
  const time = bar.from_ms ? spent(bar, last) : "";
  return [
    el("span", { class: classes }, mark(bar, isOpen), el("span", { class: "ry-el", title: bar.label }, bar.label)),
    el("span", { class: "d" }, time),
    el("span", { class: "b" }, ...(bar.from_ms ? [paint(bar, isOpen, start, span, until)] : [])),
  ];
}

function mark(bar, isOpen) {
  if (bar.status === "PROCESSING" && isOpen) return icon("loader-circle", "s", "t-blu ry-spin");
  const [name, tone] = bar.is_step ? markOf(bar.status) : (STATE_MARKS[bar.status] ?? markOf(bar.status));
  return icon(name, "s", tone);
}

function colourOf(bar) {
  return `var(--ry-st-${{ RUNNING: "processing", SKIPPED: "queued" }[bar.status] ?? word(bar.status)})`;
}

function paint(bar, isOpen, start, span, until) {
  const colour = colourOf(bar);
  const isSoft = !bar.is_step && bar.status === "NEEDS_ATTENTION";
  const line = el("i", { class: isOpen && !isSoft ? "ry-now" : false });
  line.style.left = `${(100 * (bar.from_ms - start)) / span}%`;
  line.style.width = `${(100 * Math.max(0, until - bar.from_ms)) / span}%`;
  line.style.background = isSoft ? `color-mix(in oklab,${colour} 40%,transparent)` : colour;
  return line;
}

customElements.define("ry-timeline", RyTimeline);
