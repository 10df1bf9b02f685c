/* Sign-in: links in mails, invitations, and the forms. Not deferred: the page's own scripts, which tell the server where they
   are, wait for no deferred script, and a code or a session in the address is for the form alone. */
(() => {
  "use strict";
  /* ---- sign-in forms: plain posts, because only a route can set a cookie that scripts cannot read ---- */
  const after = () => {
    const next = new URLSearchParams(window.location.search).get("next") || "";
    // Only a path of our own, as the browser itself reads it: it drops tabs and turns \ into /, so no pattern can tell.
    let url = null;
    try { url = new URL(next, window.location.origin); } catch { /* no address at all */ }
    const isOurs = url?.origin === window.location.origin && next.startsWith("/");
    return isOurs ? url.pathname + url.search + url.hash : "/dashboard/runners";
  };
  const KEPT = "runyard-invitation";
  /* ---- links in mails: a code in the query, or, from Auth itself, a session after the #. Both leave the address at once,
     before the page's own scripts run and tell the server where they are, and go to the server once, by the form. An address
     that was only confirmed needs no session: the maker of the link would decide as whom somebody is signed in. ---- */
  const HANDED = "runyard-link", NOTED = "runyard-note";
  function keepLink(name, value, page) {
    sessionStorage.setItem(HANDED, new URLSearchParams({ [name]: value || "" }).toString());
    return page;
  }
  function note(word, page) {
    sessionStorage.setItem(NOTED, word);
    return page;
  }
  function takeLink() {
    const code = new URLSearchParams(window.location.search).get("token_hash");
    const link = new URLSearchParams(window.location.hash.slice(1));
    if (code) return keepLink("token_hash", code, "/reset-password");
    if (link.has("error_description")) return note("expired", "/forgotten");
    if (!link.has("access_token")) return "";
    if (["recovery", "invite"].includes(link.get("type"))) return keepLink("refresh_token", link.get("refresh_token"), "/reset-password");
    return note("confirmed", "/login");
  }
  const leadsTo = takeLink();
  if (leadsTo) history.replaceState(null, "", window.location.pathname);
  if (leadsTo && window.location.pathname.replace(/\/$/, "") !== leadsTo) window.location.replace(leadsTo);
  const notes = {
    expired: "This link is no longer valid. Ask for a new one.",
    confirmed: "Your address is confirmed. Sign in.",
    ended: "Your session has ended. Sign in to return to the page you were on.",
  };
  let offered = "";
  const isEnded = new URLSearchParams(window.location.search).has("ended");
  const noted = notes[sessionStorage.getItem(NOTED) || (isEnded ? "ended" : "")] || "";
  // The page is drawn before React takes it over: text in its own tree would be called wrong, and taken out with what was typed.
  const beside = (el) => el.shadowRoot || el.attachShadow({ mode: "open" });
  class LinkNote extends HTMLElement {
    connectedCallback() { this.show(offered || noted); }
    show(text) {
      const style = Object.assign(document.createElement("style"), { textContent: `:host{display:${text ? "block" : "none"}}` });
      beside(this).replaceChildren(style, Object.assign(document.createElement("span"), { textContent: text }));
    }
  }
  if (!leadsTo || window.location.pathname.replace(/\/$/, "") === leadsTo) sessionStorage.removeItem(NOTED);
  customElements.define("ry-link-note", LinkNote);
  function say(form, answer) {
    const box = form.querySelector("[data-problem]");
    const isAsked = answer.ok || (answer.needs_code && !answer.message);
    beside(box).textContent = isAsked ? "" : [answer.message || "The server did not answer.", answer.hint].filter(Boolean).join(" ");
    box.hidden = isAsked;
  }
  /* The account asks for a second step: the form keeps what was typed, and asks for the code. */
  function askCode(form, answer) {
    if (answer.refresh_token) sessionStorage.setItem(HANDED, new URLSearchParams({ refresh_token: answer.refresh_token }).toString());
    const input = form.querySelector("[data-code] input");
    input.closest("[data-code]").hidden = false;
    Object.assign(input, { disabled: false, required: true });
    input.focus();
    input.select();
  }
  function arrive(form, answer) {
    const done = form.parentElement.querySelector("[data-done]");
    if ((answer.confirm || form.dataset.auth === "forgotten") && done) { form.hidden = true; done.hidden = false; return; }
    window.location.assign(sessionStorage.getItem(KEPT) ? "/invite" : after());
  }
  function fieldsOf(form) {
    const fields = Object.fromEntries(new FormData(form));
    if (form.dataset.auth === "reset") {
      Object.assign(fields, Object.fromEntries(new URLSearchParams(sessionStorage.getItem(HANDED) || "")));
      sessionStorage.removeItem(HANDED);
    }
    return ["accept", "join"].includes(form.dataset.auth) ? { ...fields, ...invitation() } : fields;
  }
  function invitation() {
    const [id, token] = (sessionStorage.getItem(KEPT) || ".").split(".");
    return { invitation: id, token };
  }
  /* ---- the company's account: an address of a proved domain leads to its provider ---- */
  const SAID = "runyard_said";
  const emailOf = (form) => form.querySelector("[name=email]");
  async function lookUp(form) {
    const email = emailOf(form).value;
    const found = await window.runyard.post("/auth/provider", { email }).catch(() => ({}));
    if (emailOf(form).value !== email) return;
    beside(form.querySelector("[data-leave] span")).textContent = `Continue with ${found.name}`;
    show(form, found.name ? "provider" : "password");
  }
  /* The form shows the address alone, then the provider or the password; another address begins again. */
  function show(form, step) {
    form.dataset.step = step;
    form.querySelector(step === "provider" ? "[data-leave]" : "[name=password]").focus();
  }
  async function leave(path, place, fields) {
    const answer = await window.runyard.post(path, fields).catch(() => ({}));
    if (answer.go) window.location.assign(answer.go); else say(place, answer);
  }
  const leaveBy = (form) => leave("/auth/leave", form, { email: emailOf(form).value });
  document.addEventListener("input", ({ target }) => {
    if (target.name === "email") delete target.closest("form[data-auth=login]")?.dataset.step;
  });
  document.addEventListener("click", ({ target }) => {
    const [left, other] = [target.closest("[data-leave]"), target.closest("[data-password]")];
    if (left) leaveBy(left.closest("form"));
    if (other) show(other.closest("form"), "password");
    const joined = target.closest("[data-join]");
    if (joined) leave("/auth/link", joined.closest("section"), { is_test: joined.dataset.join });
  });
  /* Back from a provider: what to say, once, or that the account asks for its code as well. */
  function hear() {
    const found = document.cookie.split("; ").find((each) => each.startsWith(`${SAID}=`));
    if (!found || !window.location.pathname.startsWith("/login")) return;
    document.cookie = `${SAID}=; max-age=0; path=/`;
    const words = decodeURIComponent(found.slice(SAID.length + 1));
    const form = document.querySelector("form[data-auth=login]");
    if (words !== "code") { say(form, { message: words }); return; }
    Object.assign(form.dataset, { auth: "second", step: "password" });
    form.querySelectorAll("[name=email],[name=password]").forEach((each) => Object.assign(each, { disabled: true, required: false }));
    askCode(form, {});
  }
  window.addEventListener("load", hear);
  /* The address that was typed goes along to the page for a forgotten password. */
  document.addEventListener("click", ({ target }) => {
    const address = target.closest("a[href^='/forgotten']") && document.querySelector("form[data-auth=login] [name=email]")?.value;
    if (!address) return;
    const arrival = new MutationObserver(() => {
      const field = document.querySelector("form[data-auth=forgotten] [name=email]");
      if (!field) return;
      arrival.disconnect();
      field.value ||= address;
    });
    arrival.observe(document.documentElement, { childList: true, subtree: true });
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-auth]");
    if (!form) return;
    event.preventDefault();
    const isKnown = form.dataset.auth !== "login" || form.dataset.step === "password";
    const buttons = form.querySelectorAll("button[type=submit]");
    buttons.forEach((each) => { each.disabled = true; });
    if (!isKnown) await (form.dataset.step ? leaveBy(form) : lookUp(form));
    if (!isKnown) { buttons.forEach((each) => { each.disabled = false; }); return; }
    let answer;
    try { answer = await window.runyard.post(`/auth/${form.dataset.auth}`, fieldsOf(form)); }
    catch { answer = { ok: false, message: "The server did not answer.", hint: "Nothing was changed. Try again." }; }
    buttons.forEach((each) => { each.disabled = false; });
    if (form.dataset.auth === "accept" && answer.status === 401) { window.location.assign("/login?next=/invite"); return; }
    const isJoined = ["accept", "join"].includes(form.dataset.auth) && answer.ok && !answer.confirm;
    if (isJoined) sessionStorage.removeItem(KEPT);
    say(form, answer);
    if (answer.needs_code) askCode(form, answer);
    if (answer.ok) arrive(form, answer);
  });
  /* The page has words for a whole link and for one that lacks a part (css/sign_in.css); the mark is set before either is drawn. */
  function takeInvitation() {
    if (!window.location.pathname.startsWith("/invite")) return;
    const given = window.location.hash.slice(1);
    if (given) history.replaceState(null, "", "/invite");
    const found = given || sessionStorage.getItem(KEPT) || "";
    const isWhole = /^[^.]+\.[^.]+$/.test(found);
    if (isWhole) sessionStorage.setItem(KEPT, found);
    document.documentElement.toggleAttribute("data-no-invitation", !isWhole);
    if (!isWhole) return;
    // runyard.js, which posts, is loaded after this script.
    if (window.runyard) showOffer(); else document.addEventListener("DOMContentLoaded", showOffer, { once: true });
  }
  async function showOffer() {
    const offer = await window.runyard.post("/auth/offer", invitation()).catch(() => ({ message: "The server did not answer.", hint: "Load the page again." }));
    const isFor = offer.email ? `${offer.email} is invited` : "";
    const by = offer.invited_by ? ` by ${offer.invited_by}` : "";
    const other = offer.ok && offer.signed_in_as && offer.signed_in_as !== offer.email ? ` You are signed in as ${offer.signed_in_as}: sign in with the invited address.` : "";
    offered = offer.ok ? `${isFor}${by} to join ${offer.organization} as ${offer.role}.${other}` : [offer.message, offer.hint].filter(Boolean).join(" ");
    const { documentElement: root } = document;
    root.toggleAttribute("data-visitor", Boolean(offer.ok && !offer.signed_in_as));
    root.toggleAttribute("data-no-offer", !offer.ok);
    document.querySelectorAll("ry-link-note").forEach((note) => note.show?.(offered));
  }
  takeInvitation();
  async function askPolicy() {
    if (!/^\/(login|sign-up)\/?$/.test(window.location.pathname) || sessionStorage.getItem(KEPT)) return;
    const answer = await fetch("/auth/policy").then((found) => found.json()).catch(() => ({ is_open: true }));
    document.documentElement.toggleAttribute("data-closed", !answer.is_open);
  }
  askPolicy();
  // The whole link, opened where a part of it was: the page is not loaded again.
  window.addEventListener("hashchange", takeInvitation);
})();
