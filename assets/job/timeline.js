// The timeline: states and steps on one axis. Open bars grow by themselves, once a second.

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

class RyTimeline extends HTMLElement {
  static observedAttributes = ["data"];

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
    const span = Math.max(1000, last - start) * (end ? 1 : ROOM);
    this.replaceChildren(...axis(start, span, end), ...bars.flatMap((bar) => row(bar, start, span, last)));
  }
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
  const time = !bar.from_ms ? "" : isOpen ? duration(until - bar.from_ms) : took(until - bar.from_ms);
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

function paint(bar, isOpen, start, span, until) {
  const name = { RUNNING: "processing", SKIPPED: "queued" }[bar.status] ?? word(bar.status);
  const colour = `var(--ry-st-${name})`;
  const isSoft = !bar.is_step && bar.status === "NEEDS_ATTENTION";
  const line = el("i", { class: isOpen && !isSoft ? "ry-now" : false });
  line.style.left = `${(100 * (bar.from_ms - start)) / span}%`;
  line.style.width = `${(100 * Math.max(0, until - bar.from_ms)) / span}%`;
  line.style.background = isSoft ? `color-mix(in oklab,${colour} 40%,transparent)` : colour;
  return line;
}

customElements.define("ry-timeline", RyTimeline);
