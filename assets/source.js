// <ry-source name text>: a file with line numbers and colours. Everything is set as text, nothing as markup.

const RULES = {
  hcl: /(#[^\n]*|\/\/[^\n]*)|("(?:[^"\\\n]|\\.)*")|\b(true|false|null|[0-9]+)\b|\b(resource|data|variable|output|module|provider|terraform|locals|for_each|count)\b|\b((?:var|local|each|module|data)\.[\w.]+)/g,
  yaml: /(#[^\n]*)|("(?:[^"\\\n]|\\.)*"|'[^'\n]*')|\b(true|false|null|[0-9]+)\b|^(\s*-?\s*[\w.-]+)(?=:)/gm,
};
const CLASSES = ["", "a-d", "a-g", "a-y", "a-m", "a-c"];

class RySource extends HTMLElement {
  static observedAttributes = ["name", "text"];

  connectedCallback() {
    this.attributeChangedCallback();
  }

  attributeChangedCallback() {
    if (!this.isConnected) return;
    this.tabIndex = 0;
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", `Contents of ${this.getAttribute("name")}`);
    const rule = /\.ya?ml$/.test(this.getAttribute("name") ?? "") ? RULES.yaml : RULES.hcl;
    const lines = (this.getAttribute("text") ?? "").replace(/\n$/, "").split("\n");
    this.replaceChildren(...lines.map((line, at) => row(line, at + 1, rule)));
  }
}

function row(line, number, rule) {
  const place = document.createElement("div");
  place.className = "ry-ll";
  const gutter = document.createElement("a");
  gutter.textContent = number;
  gutter.tabIndex = -1;
  const text = document.createElement("span");
  text.append(...coloured(line, rule));
  place.append(gutter, text);
  return place;
}

function coloured(line, rule) {
  const parts = [];
  let at = 0;
  for (const found of line.matchAll(rule)) {
    const kind = found.slice(1).findIndex((group) => group !== undefined) + 1;
    if (found.index > at) parts.push(line.slice(at, found.index));
    const word = document.createElement("span");
    word.className = CLASSES[kind] ?? "";
    word.textContent = found[0];
    parts.push(word);
    at = found.index + found[0].length;
  }
  parts.push(line.slice(at) || (parts.length ? "" : " "));
  return parts;
}

customElements.define("ry-source", RySource);
