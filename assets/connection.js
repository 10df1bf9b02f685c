/* Knows whether the server answers, before Reflex does: its socket alone would notice a dead network after minutes.
   Loaded before the page's own scripts, so that it sees every socket that they open. */
(() => {
  "use strict";
  /* The server pings every few seconds (rxconfig.py): a tab that receives nothing for this long is disconnected. */
  const SILENT_MS = 20_000;
  const GRACE_MS = 1_500;
  const RETRY_MS = 3_000;
  const root = document.documentElement;
  let socket = null;
  let heardAt = 0;
  let leaving = 0;
  let actedAt = 0;

  function cut() {
    clearTimeout(leaving);
    leaving = 0;
    if (root.dataset.cut) return;
    root.dataset.cut = new Date(heardAt || Date.now()).toISOString();
    const at = new Date(root.dataset.cut).toTimeString().slice(0, 17);
    for (const place of document.querySelectorAll("[data-cut-since]")) place.textContent = ` since ${at}`;
    window.dispatchEvent(new Event("ry-cut"));
    // Nothing was heard after that click: perhaps it never arrived.
    if (actedAt > heardAt) say("The last click may not have been sent. Check it when this page is live.");
  }
  function mend() {
    clearTimeout(leaving);
    leaving = 0;
    if (!root.dataset.cut) return;
    delete root.dataset.cut;
    actedAt = 0;
    document.querySelector("[data-testid=not-sent]")?.remove();
    window.dispatchEvent(new Event("ry-mended"));
  }
  function watch(opened) {
    socket = opened;
    opened.addEventListener("message", (event) => {
      heardAt = Date.now();
      // "0" only shows that there is a server; later messages show that the page is served.
      if (opened === socket && typeof event.data === "string" && !event.data.startsWith("0")) mend();
    });
    opened.addEventListener("close", () => { if (opened === socket && !leaving) leaving = setTimeout(cut, GRACE_MS); });
  }
  const Plain = window.WebSocket;
  window.WebSocket = class extends Plain {
    constructor(...args) {
      super(...args);
      if (new URL(args[0], location.href).pathname.startsWith("/_event")) watch(this);
    }
  };
  setInterval(() => {
    if (socket?.readyState !== Plain.OPEN || Date.now() - heardAt < SILENT_MS || !heardAt) return;
    cut();
    socket.close();
  }, 1_000);
  /* Reflex looks at its socket when a page becomes visible, and never gives up then. */
  setInterval(() => { if (root.dataset.cut) document.dispatchEvent(new Event("visibilitychange")); }, RETRY_MS);
  window.addEventListener("pagehide", () => clearTimeout(leaving));

  /* ---- while disconnected nothing can be requested: a click is refused at once, and not sent minutes later ----
     The dashboard's own line to its project is another one: the mark in the top bar shows it (app/frame/connection.py). */
  const ACTING = "button, input[type=submit], [role=menuitem], [role=switch], [role=checkbox], [role=radio]";
  const HERE = "a[href], [data-local], [data-copy], [aria-haspopup=menu], ry-log, dialog, form[data-auth]";
  const AWAY = ".ry-told [data-link=off]";
  let said = 0;
  function say(words, ms) {
    clearTimeout(said);
    const note = document.querySelector("[data-testid=not-sent]") || document.createElement("div");
    note.className = "ry-unsent";
    note.dataset.testid = "not-sent";
    note.setAttribute("role", "alert");
    note.textContent = words;
    document.body.append(note);
    if (ms) said = setTimeout(() => note.remove(), ms);
  }
  function act(event, control) {
    if (!control || control.closest(HERE)) return;
    const isAway = !root.dataset.cut && document.querySelector(AWAY) !== null;
    if (!root.dataset.cut && (!isAway || control.closest("[data-retry]"))) {
      actedAt = Date.now();
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
    const reason = isAway ? "the database does not answer" : "no connection";
    say(`Not sent: ${reason}. Try again when this page is live.`, 5_000);
  }
  document.addEventListener("click", (event) => {
    act(event, event.target instanceof Element && event.target.closest(ACTING));
  }, true);
  document.addEventListener("submit", (event) => act(event, event.target), true);
})();
