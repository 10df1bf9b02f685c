// The log's frame: title, search, buttons, the scrolling body and the status line.

import { control, el, iconButton } from "./dom.js";
import { icon } from "./icons.js";

/** Builds the frame; `on` holds what the buttons do. */
export function buildFrame(host, on) {
  const parts = { ...buildSearch(on), ...buildButtons(on) };
  parts.times.classList.add("hide-s"); // left out on a narrow screen
  parts.attempts = el("select", { class: "ry-attempts", "aria-label": "Attempt", hidden: true, onchange: (event) => on.attempt(event.target.value) });
  parts.canvas = el("div", { class: "ry-lcanvas" });
  parts.window = el("div", { class: "ry-lwindow" });
  parts.canvas.append(parts.window);
  parts.body = el("div", { class: "ry-lb", role: "log", "aria-live": "off", "aria-label": "Log", tabindex: "0" }, parts.canvas);
  parts.blank = el("div", { class: "ry-empty", hidden: true });
  parts.said = el("span");
  parts.total = el("span", { class: "num" });
  parts.spoken = el("span", { class: "sr", role: "status" });
  const newest = el("button", { type: "button", class: "rt-reset ry-link ry-newest", onclick: on.newest }, "Read the newest line");
  parts.foot = el("div", { class: "ry-lf" }, parts.said, el("span", { class: "grow" }), newest, parts.total, parts.spoken);
  const tools = el("div", { class: "ry-lt" }, el("h2", { class: "ry-h2" }, "Log"), parts.attempts, el("span", { class: "grow" }), parts.field);
  tools.append(parts.previous, parts.next, parts.follow, parts.wrap, parts.times, parts.download, parts.full);
  host.append(tools, parts.body, parts.blank, parts.foot);
  return parts;
}

function buildSearch(on) {
  const input = el("input", {
    class: "rt-reset rt-TextFieldInput",
    type: "search",
    placeholder: "Search the log",
    "aria-label": "Search the log",
    spellcheck: "false",
    autocomplete: "off",
    maxlength: "200",
    "data-search": "",
    oninput: (event) => on.search(event.target.value),
    onkeydown: on.searchKey,
  });
  const hits = el("span", { class: "ry-n" });
  const left = el("div", { class: "rt-TextFieldSlot", "data-side": "left", style: "padding:0 4px 0 10px" }, icon("search"));
  const right = el("div", { class: "rt-TextFieldSlot", "data-side": "right", style: "padding:0 7px 0 4px" }, hits);
  const field = el("div", { class: "rt-TextFieldRoot rt-r-size-2 rt-variant-surface" }, input, left, right);
  const previous = iconButton("chevron-up", "Previous hit", () => on.step(-1));
  const next = iconButton("chevron-down", "Next hit", () => on.step(1));
  return { field, input, hits, previous, next };
}

function buildButtons(on) {
  return {
    follow: control("button", "surface rt-Button", { onclick: on.follow, "aria-pressed": "false" }, icon("arrow-down-to-line"), "Follow"),
    wrap: iconButton("wrap-text", "Wrap lines", on.wrap, { "aria-pressed": "false" }),
    times: iconButton("clock", "Show times", on.times, { "aria-pressed": "false" }),
    download: iconButton("download", "Download", null, { download: true }, "a"),
    full: iconButton("maximize-2", "Full screen", on.full, { "aria-pressed": "false" }),
  };
}

/** Shows whether a button is pressed, in the way of its kind. */
export function press(button, isPressed) {
  button.setAttribute("aria-pressed", String(isPressed));
  if (button.classList.contains("rt-Button")) {
    button.classList.toggle("rt-variant-soft", isPressed);
    button.classList.toggle("rt-variant-surface", !isPressed);
    button.setAttribute("data-accent-color", isPressed ? "indigo" : "gray");
  } else {
    button.classList.toggle("ry-pressed", isPressed);
  }
}
