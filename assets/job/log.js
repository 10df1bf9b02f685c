// <ry-log job attempt seq status steps main note plan phase>: the element around the log view.

import { LogView } from "./view.js";

class RyLog extends HTMLElement {
  static observedAttributes = ["job", "attempt", "seq", "status", "steps", "main", "note", "plan", "phase"];

  connectedCallback() {
    this.view ??= new LogView(this);
  }

  disconnectedCallback() {
    this.view?.close();
    this.view = null;
    this.replaceChildren();
  }

  attributeChangedCallback() {
    // several attributes change together: look once, when all of them have
    if (this.isPending) return;
    this.isPending = true;
    queueMicrotask(() => {
      this.isPending = false;
      this.view?.changed();
    });
  }
}

customElements.define("ry-log", RyLog);
