// Small helpers to build elements out of text nodes only.

import { icon } from "./icons.js";

/** Makes an element; strings among the children become text nodes. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** A button, or a link that looks like one, as Radix draws it. */
export function control(tag, look, attributes, ...children) {
  const drawn = { class: `rt-reset rt-BaseButton rt-r-size-1 rt-variant-${look}`, "data-accent-color": "gray", ...attributes };
  return el(tag, tag === "button" ? { type: "button", ...drawn } : drawn, ...children);
}

export function iconButton(name, label, onclick, extra, tag = "button") {
  return control(tag, "ghost rt-IconButton", { "aria-label": label, title: label, onclick, ...extra }, icon(name));
}

/** Says how long something took, in its two largest units; the same words as the server's. */
export function duration(ms) {
  const total = Math.max(0, Math.floor(ms / 1000));
  const two = (number) => String(number).padStart(2, "0");
  if (total < 60) return `${total} s`;
  if (total < 3600) return total % 60 ? `${Math.floor(total / 60)} min ${two(total % 60)} s` : `${total / 60} min`;
  if (total < 86400) return `${Math.floor(total / 3600)} h ${two(Math.floor((total % 3600) / 60))} min`;
  return `${Math.floor(total / 86400)} d ${Math.floor((total % 86400) / 3600)} h`;
}

/** Formats the duration of something that has ended; short ones in tenths of a second. */
export function took(ms) {
  return ms < 9_950 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : duration(ms);
}

/** The server's time, as far as the page knows it. */
export function now() {
  return globalThis.runyard?.now?.() ?? Date.now();
}

export function size(bytes) {
  if (bytes < 1e3) return `${bytes} B`;
  return bytes < 1e6 ? `${Math.round(bytes / 1e3)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

export const number = new Intl.NumberFormat("en-GB");
export const timeOfDay = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
