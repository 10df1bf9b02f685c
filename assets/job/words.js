// The words of the log's frame.

import { el, number, size } from "./dom.js";
import { icon } from "./icons.js";

export function hitWords(search, model) {
  if (!search.isOn) return "";
  const isMore = model.order.some((seq) => !search.isScanned(seq));
  if (!search.count) return isMore ? "searching…" : "no hits";
  const total = number.format(search.count) + (isMore ? "…" : "");
  if (search.now >= 0) return `${number.format(search.now + 1)} of ${total}`;
  return `${total} ${search.count === 1 ? "hit" : "hits"}`;
}

export function totalWords(model) {
  const lines = `${number.format(model.lineTotal)} ${model.lineTotal === 1 ? "line" : "lines"}`;
  return `${lines}, ${size(model.byteTotal)}`;
}

/** Says what the log is doing: following, stopped, complete, or cut off. */
export function footWords(view) {
  const note = view.host.getAttribute("note");
  if (view.loader.problem) return [icon("unplug"), view.loader.problem];
  if (note) return [icon("history"), note];
  if (!view.isLive) return ["The log is complete."];
  if (view.isFollowing) return [icon("arrow-down-to-line"), "Following. Scroll up to stop."];
  const button = el("button", { type: "button", class: "rt-reset ry-link", onclick: () => view.follow() }, "Follow");
  return ["Not following: new lines do not move the log.", button];
}

/** Says why there is no log to see, as [title, text]. */
export function blankWords(view) {
  if (!view.latest && ["SUCCEEDED", "FAILED", "CANCELLED"].includes(view.host.getAttribute("status"))) return ["No log", "No runner took this job."];
  if (!view.latest) return ["No log yet", "It starts when a runner takes the job."];
  if (view.loader.problem) return ["The log could not be read", view.loader.problem];
  if (!view.loader.isIndexed) return ["Reading the log", "The first lines are on their way."];
  if (view.isLive) return ["No log yet", "The first lines are on their way."];
  return ["No log", "This attempt ended before it wrote anything, or its log is past its retention period."];
}
