/* Clocks, copy buttons and keys that need no request to the server. No dependency, no outside request. */
(() => {
  "use strict";
  let skew = 0;
  const now = () => Date.now() + skew;
  const two = (n) => String(n).padStart(2, "0");
  const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  function span(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  }
  /* Something that has ended; short times in tenths of a second, as in a job's log and timeline (job/dom.js). */
  const took = (ms) => ms < 9_950 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : span(ms);
  function timer(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    return `${Math.floor(s / 60)}:${two(s % 60)}`;
  }
  function rough(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 1) return "now";
    if (s < 60) return `${s} s ago`;
    if (s < 3600) return `${Math.floor(s / 60)} min ago`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
    return `${Math.floor(s / 86400)} d ago`;
  }
  function day(at) {
    const today = new Date(now());
    const text = `${at.getDate()} ${months[at.getMonth()]}`;
    return at.getFullYear() === today.getFullYear() ? text : `${text} ${at.getFullYear()}`;
  }
  const hour = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`;
  const midnight = () => new Date(now()).setHours(0, 0, 0, 0);
  function time(at) {
    if (at >= midnight()) return hour(at);
    return at >= midnight() - 86400000 ? "Yesterday" : day(at);
  }
  /* A moment that matters keeps its time on later days, too. */
  function clock(at) {
    return day(at) === day(new Date(now())) ? `${hour(at)}:${two(at.getSeconds())}` : `${day(at)}, ${hour(at)}`;
  }
  /* Made once: a formatter costs more than everything else that ticks. */
  const zone = Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });
  const zones = new Map();
  function zoneOf(at) {
    const offset = at.getTimezoneOffset();
    if (!zones.has(offset)) zones.set(offset, (zone.formatToParts(at).find((part) => part.type === "timeZoneName") || {}).value || "");
    return zones.get(offset);
  }
  function exact(at) {
    const name = zoneOf(at);
    return `${at.getDate()} ${months[at.getMonth()]} ${at.getFullYear()}, ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${name}`;
  }

  class Ago extends HTMLElement {
    static observedAttributes = ["at", "until", "mode"];
    connectedCallback() { this.paint(); }
    attributeChangedCallback() { this.paint(); }
    paint() {
      const at = new Date(this.getAttribute("at") || "");
      if (isNaN(at)) { this.write("–", ""); return; }
      const until = new Date(this.getAttribute("until") || "");
      const end = isNaN(until) ? now() : until.getTime();
      const mode = this.getAttribute("mode");
      const text = mode === "for" ? (isNaN(until) ? span : took)(end - at) : mode === "timer" ? timer(end - at) : mode === "date" ? day(at) : mode === "time" ? time(at) : mode === "hour" ? hour(at) : mode === "clock" ? clock(at) : mode === "zoned" ? `${clock(at)} ${zoneOf(at)}` : rough(now() - at);
      this.write(text, exact(at));
    }
    write(text, title) {
      if (this.textContent !== text) this.textContent = text;
      if (this.title !== title) this.title = title;
    }
  }
  /* The server's clock, asked for and measured here: a time that waited in a state would be an old one. */
  async function setClock() {
    const sent = Date.now();
    try {
      const { now: at } = await (await fetch("/clock", { cache: "no-store" })).json();
      const travel = Date.now() - sent;
      const found = at + travel / 2 - Date.now();
      // Less than the way there and back can explain is not a wrong clock.
      if (Math.abs(found - skew) > Math.max(700, travel / 2)) skew = found;
    } catch { /* asked again when there is a server */ }
  }
  setClock();
  setInterval(setClock, 300_000);
  window.addEventListener("ry-mended", setClock);
  class Load extends HTMLElement {
    static observedAttributes = ["used", "of", "state"];
    connectedCallback() { this.paint(); }
    attributeChangedCallback() { this.paint(); }
    paint() {
      if (!this.isConnected) return;
      const used = Number(this.getAttribute("used")) || 0;
      const of = Number(this.getAttribute("of")) || 0;
      if (of === 0) { this.textContent = "–"; this.removeAttribute("aria-label"); this.removeAttribute("role"); return; }
      const bar = document.createElement("span");
      bar.setAttribute("aria-hidden", "true");
      if (of <= 8) {
        bar.className = this.getAttribute("state") === "DRAINING" ? "ry-slots dr" : "ry-slots";
        for (let at = 0; at < of; at += 1) bar.append(Object.assign(document.createElement("i"), { className: at < used ? "f" : "" }));
      } else {
        bar.className = "ry-meter";
        const fill = document.createElement("i");
        fill.style.width = `${Math.round((100 * used) / of)}%`;
        bar.append(fill);
      }
      const text = Object.assign(document.createElement("span"), { className: "mut num", textContent: `${used}/${of}` });
      this.setAttribute("role", "img");
      this.setAttribute("aria-label", `${used} of ${of} slots used`);
      this.replaceChildren(bar, text);
    }
  }
  /* A runner's token comes once, by one message, and is kept here only: no state of the server holds it. */
  const secrets = new Map();
  const reveal = (owner, text) => text.replaceAll("%TOKEN%", secrets.get(owner) || "(shown once)");
  class Secret extends HTMLElement {
    static observedAttributes = ["owner", "text"];
    connectedCallback() { this.paint(); }
    attributeChangedCallback() { this.paint(); }
    paint() { this.textContent = reveal(this.getAttribute("owner") || "", this.getAttribute("text") || ""); }
  }
  const repaint = () => document.querySelectorAll("ry-secret").forEach((el) => el.paint());
  customElements.define("ry-secret", Secret);
  customElements.define("ry-ago", Ago);
  customElements.define("ry-load", Load);
  setInterval(() => { if (!document.hidden) document.querySelectorAll("ry-ago").forEach((el) => el.paint()); }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) document.querySelectorAll("ry-ago").forEach((el) => el.paint()); });

  async function copy(text) {
    try { await navigator.clipboard.writeText(text); }
    catch {
      const area = document.createElement("textarea");
      area.value = text;
      area.style.cssText = "position:fixed;opacity:0";
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    copy(reveal(button.dataset.owner || "", button.dataset.copy));
    const word = button.querySelector("span");
    button.dataset.copied = "1";
    if (word) word.textContent = "Copied";
    setTimeout(() => { delete button.dataset.copied; if (word) word.textContent = "Copy"; }, 1600);
  });

  /* A mail with a link that only this browser knows: written on request, sent by the person's own program. */
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-mail]");
    if (!button) return;
    const { mail, owner, subject } = button.dataset;
    const body = `${subject}:\n\n${reveal(owner, "%TOKEN%")}\n\nThe link works for 7 days and only for ${mail}.`;
    const anchor = document.createElement("a");
    anchor.href = `mailto:${encodeURIComponent(mail)}?subject=${encodeURIComponent(subject)}&body=${encodeURIComponent(body)}`;
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
  });

  async function post(path, fields) {
    const answer = await fetch(path, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(fields || {}),
    });
    let body = {};
    try { body = await answer.json(); } catch { /* an empty answer says enough by its status */ }
    return { ok: answer.ok, status: answer.status, ...body };
  }

  /* A page is drawn before it listens: a click that comes too soon is nobody's. */
  const isListening = (el) => Object.keys(el).some((name) => name.startsWith("__reactProps"));
  /* Write into a field past React's own setter, so that it sees a change and asks the server. */
  function write(field, text) {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, text);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  /* Showing everything again empties the search at once: what was typed last, and still waits for a pause, would come after it. */
  document.addEventListener("click", (event) => {
    const field = event.target instanceof Element && event.target.closest("[data-clear]") && document.querySelector("[data-search]");
    if (field?.value) write(field, "");
  }, true);

  /* ---- while the pointer or the keyboard's focus is in a table, its new rows wait ---- */
  const held = new Set();
  function at(table, isThere) {
    const button = table.querySelector(`[data-hold=${isThere ? "on" : "off"}]`);
    if (isThere === held.has(table) || (isThere && !isListening(button))) return;
    if (isThere) held.add(table); else held.delete(table);
    button?.click();
  }
  function track(target) {
    const table = target instanceof Element ? target.closest(".ry-tw:has([data-hold])") : null;
    for (const other of [...held]) if (other !== table && !isAt(other)) at(other, false);
    if (table && isAt(table)) at(table, true);
  }
  const isAt = (table) => table.isConnected && (table.matches(":hover") || Boolean(table.querySelector(":focus-visible")));
  // A finger does not hover: only what a mouse or a pen points at is held.
  document.addEventListener("pointerover", (event) => { if (event.pointerType !== "touch") track(event.target); });
  document.documentElement.addEventListener("pointerleave", () => track(null));
  document.addEventListener("focusin", (event) => track(event.target));
  document.addEventListener("focusout", () => setTimeout(() => track(document.activeElement)));

  // A problem is about what was typed before: it is hidden while its field changes, and shown again with the next answer.
  document.addEventListener("input", (event) => {
    for (const problem of event.target.closest?.(".ry-f")?.querySelectorAll(":scope > .err") ?? []) problem.hidden = true;
  });
  document.addEventListener("submit", (event) => {
    for (const problem of event.target.querySelectorAll(".err[hidden]")) problem.hidden = false;
  }, true);
  function focusIn(selector, tries = 40) {
    const el = document.querySelector(selector);
    if (el) el.focus();
    else if (tries) requestAnimationFrame(() => focusIn(selector, tries - 1));
  }

  /* The code calls a page /dashboard/jobs/7; the address names the organisation of the tab: /o/platform/jobs/7. */
  const here = (path) => path.replace(/^\/dashboard(?=[/?]|$)/, (/^\/o\/[^/]+/.exec(window.location.pathname) || ["/dashboard"])[0]);

  window.runyard = {
    at: here,
    now,
    post,
    write,
    isListening,
    focusIn,
    secret: (owner, token) => { secrets.set(owner, token); repaint(); },
    hasSecret: (owner) => secrets.has(owner),
    forget: (owner) => { secrets.delete(owner); repaint(); },
    signInAgain: () => {
      // Told twice, the second time on the sign-in page: loading it again would empty what was typed.
      if (!/^\/(dashboard|o|device|welcome)(\/|$)/.test(window.location.pathname)) return;
      const here = window.location.pathname + window.location.search;
      window.location.assign(`/login?ended=1&next=${encodeURIComponent(here)}`);
    },
    signOut: async () => { await post("/auth/logout"); window.location.assign("/login"); },
  };

  /* ---- keys: off while typing, and while a dialog or menu is open ---- */
  const pages = { r: "runners", j: "jobs", m: "modules", s: "settings" };
  let isGo = 0;
  const isTyping = (el) => el.closest("input, textarea, select, [contenteditable=true]");
  const isOpen = () => document.querySelector('[role="dialog"], [role="alertdialog"], [role="menu"], dialog[open]');
  const rows = () => [...document.querySelectorAll("[data-row]")];
  function move(step) {
    const all = rows();
    const at = all.indexOf(document.activeElement.closest("[data-row]"));
    const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
    if (next) next.focus();
    return Boolean(next);
  }
  function press(selector, scope) {
    const el = (scope || document).querySelector(selector);
    // Radix menus open on pointerdown or on a key, not on click.
    if (el?.matches('[aria-haspopup="menu"]')) { el.focus(); el.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true })); }
    else el?.click();
    return Boolean(el);
  }
  function open(row) {
    return row ? press("[data-open]", row) : false;
  }
  function fold(row, state) {
    if (row && row.matches(`[aria-expanded="${state}"]`)) { row.click(); return true; }
    return row ? press(`[aria-expanded="${state}"]`, row) : false;
  }
  function onKey(key, row) {
    if (isGo && Date.now() - isGo < 1200) { isGo = 0; return pages[key] ? press(`a.ry-nav[href="${here(`/dashboard/${pages[key]}`)}"]`) : false; }
    switch (key) {
      case "g": isGo = Date.now(); return true;
      case "/": { const el = document.querySelector("[data-search]"); if (el) { el.focus(); el.select(); } return Boolean(el); }
      case "?": document.getElementById("ry-help")?.showModal(); return true;
      case "n": document.querySelector("[data-key=n]")?.focus(); return press("[data-key=n]");
      // The decision: c never presses, because what it confirms cannot be taken back; d asks first.
      case "c": { const el = document.querySelector("[data-needed], [data-testid=confirm]:enabled"); el?.focus(); return Boolean(el); }
      case "d": return press("[data-testid=discard]");
      case "u": return press("[data-key=needed]");
      case "j": case "ArrowDown": return row || key === "j" ? move(1) : false;
      case "k": case "ArrowUp": return row || key === "k" ? move(-1) : false;
      case "Enter": return document.activeElement === row ? open(row) : false;
      case "ArrowRight": return fold(row, "false");
      case "ArrowLeft": return fold(row, "true");
      case ".": return row ? press("[data-menu]", row) : false;
      default: return false;
    }
  }
  // A click beside the links and buttons of a row opens it, but not one that ends a selection of its text.
  document.addEventListener("click", (event) => {
    const el = event.target instanceof Element ? event.target : document.body;
    if (event.defaultPrevented || getSelection().toString() || el.closest("a, button, input, label, [role=menu]")) return;
    open(el.closest("tr[data-row]"));
  });
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const el = event.target instanceof Element ? event.target : document.body;
    if (event.key === "Escape" && el.matches("[data-search]")) {
      const clear = document.querySelector("[data-clear]");
      if (el.value && clear) clear.click(); else el.blur();
      return;
    }
    if (isTyping(el) || isOpen()) return;
    if (onKey(event.key, el.closest("[data-row]"))) event.preventDefault();
  });
  window.addEventListener("ry-help", () => document.getElementById("ry-help")?.showModal());
})();
