// The rows of a log as elements: step heads, gaps, lines. Whatever a job printed ends in text nodes.

import { duration, el, now, number, timeOfDay, took } from "./dom.js";
import { icon } from "./icons.js";

const MARKS = {
  RUNNING: ["loader-circle", "t-blu ry-spin"],
  SUCCEEDED: ["circle-check", "t-grn"],
  FAILED: ["circle-x", "t-red"],
  SKIPPED: ["skip-forward", "mut"],
  CANCELLED: ["ban", "mut"],
  NEEDS_ATTENTION: ["triangle-alert", "t-org"],
};

export function markOf(status) {
  return MARKS[status] ?? ["circle-dashed", "mut"];
}

/** The head of a step: folds and unfolds it. */
export function headRow(block, step, onFold) {
  const [name, tone] = markOf(step?.status);
  const time = !step?.from_ms ? "" : step.to_ms ? took(step.to_ms - step.from_ms) : duration(now() - step.from_ms);
  return el(
    "button",
    { type: "button", class: "rt-reset ry-ls", "aria-expanded": String(!block.isFolded), "data-step": block.section.step, onclick: onFold },
    icon(block.isFolded ? "chevron-right" : "chevron-down", "s", "mut"),
    icon(name, "s", tone),
    step?.title ?? (block.section.step || "Log"),
    el("span", { class: "ry-n num" }, `${number.format(block.lines)} ${block.lines === 1 ? "line" : "lines"}\u2003${time}`),
  );
}

/** The row between the plan's log and the apply's. */
export function partRow(phase) {
  return el("div", { class: "ry-lp", role: "separator", "aria-label": phase }, el("b", {}, phase));
}

/** A row that shows that lines are missing. */
export function gapRow({ from, to }, isOver) {
  const isOne = from === to;
  const parts = isOne ? `Part ${from} of the log has` : `Parts ${from} to ${to} of the log have`;
  const rest = isOver ? "not arrived. The runner was lost, or its disk, before the rest was sent." : "not arrived yet. The runner will send it again.";
  return el("div", { class: "ry-gap" }, icon("unplug"), `${parts} ${rest}`);
}

/** One line: its number is a link to it. */
export function lineRow(line, at, options) {
  const anchor = el("a", { href: `#L${at}`, tabindex: "-1", "data-line": at }, String(at));
  const row = el("div", { class: options.isOn ? "ry-ll on" : "ry-ll", id: `L${at}` }, anchor);
  if (options.time) row.append(el("time", { class: "ry-lw", datetime: options.time }, timeOfDay.format(new Date(options.time))));
  const text = el("span");
  if (line === null) text.append(el("span", { class: "a-d" }, "…"));
  else fill(text, line, options);
  row.append(text);
  return row;
}

function fill(target, line, { columns, width, current }) {
  const parts = typeof line === "string" ? [line, ""] : line;
  let from = 0;
  for (let at = 0; at < parts.length; at += 2) {
    const pieces = columns.length ? cut(parts[at], from, columns, width) : [[parts[at], -1]];
    const home = parts[at + 1] ? el("span", { class: parts[at + 1] }) : target;
    for (const [piece, column] of pieces) {
      home.append(column < 0 ? piece : el("mark", { class: column === current ? "now" : false }, piece));
    }
    if (home !== target) target.append(home);
    from += parts[at].length;
  }
}

/** Cuts a segment at the edges of the hits; a hit may begin in one segment and end in the next. */
function cut(text, from, columns, width) {
  const pieces = [];
  let at = 0;
  for (const column of columns) {
    const start = Math.max(0, column - from);
    const end = Math.min(text.length, column - from + width);
    if (end <= 0 || start >= text.length || end <= start) continue;
    if (start > at) pieces.push([text.slice(at, start), -1]);
    pieces.push([text.slice(start, end), column]);
    at = end;
  }
  if (at < text.length) pieces.push([text.slice(at), -1]);
  return pieces;
}
