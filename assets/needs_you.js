/* The title of the page names what it shows and counts the jobs that wait for a decision, and the browser notifies when there is one more, if
   you let it. */
(() => {
  "use strict";
  const KEY = "ry-notify";
  const stripped = (title) => title.replace(/^\(\d+\) /, "");
  const wanted = () => localStorage.getItem(KEY) === "on" && "Notification" in window && Notification.permission === "granted";
  let known = null;

  function count() {
    const mark = document.querySelector(".ry-side .ry-me");
    return mark ? Number.parseInt(mark.textContent, 10) || 0 : 0;
  }
  function say(now) {
    const words = now === 1 ? "1 job waits for a decision" : `${now} jobs wait for a decision`;
    const shown = new Notification("Runyard", { body: words, tag: "runyard-needs-you", icon: "/mark.svg" });
    shown.onclick = () => { window.focus(); window.location.assign(window.runyard.at("/dashboard/jobs?view=needs")); };
  }
  function check() {
    if (!document.querySelector(".ry-side")) return;
    const now = count();
    /* A page has one title for every runner, job or module that it can show; the path above it ends with this one's name. */
    const here = document.querySelector(".ry-crumb b")?.textContent.trim();
    const title = (now ? `(${now}) ` : "") + (here ? `${here} · Runyard` : stripped(document.title));
    if (title !== document.title) document.title = title;
    /* The first count is that of the opened page; only an increase is a reason to notify. */
    if (known !== null && now > known && wanted() && document.visibilityState !== "visible") say(now);
    known = now;
  }
  async function turn() {
    if (!("Notification" in window)) return "unsupported";
    if (wanted()) { localStorage.setItem(KEY, "off"); return "off"; }
    const answer = Notification.permission === "default" ? await Notification.requestPermission() : Notification.permission;
    if (answer !== "granted") return "denied";
    localStorage.setItem(KEY, "on");
    return "on";
  }

  let due = 0;
  const soon = () => { if (!due) due = setTimeout(() => { due = 0; check(); }, 100); };
  new MutationObserver(soon).observe(document, { childList: true, subtree: true, characterData: true });
  soon();
  window.runyardNotify = { turn, isOn: () => (wanted() ? "on" : "off") };
})();
