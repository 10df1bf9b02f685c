/* Dialogs by keyboard: they have the focus while they are open, and Enter is their act. */
(() => {
  "use strict";
  /* A dialog has the focus while it is open, also when the menu that it was opened from gives it back to its button. */
  const FIELDS = "input:not([type=hidden]):not([disabled]), textarea:not([disabled]), select:not([disabled]), [role=combobox]";
  const OVER = "[role=menu], [role=listbox], [role=dialog], [role=alertdialog], [data-sonner-toaster]";
  // A list that a dialog's field opened has the focus while it is open.
  const LISTS = "[role=menu][data-state=open], [role=listbox][data-state=open]";
  const asked = () => [...document.querySelectorAll("[role=dialog][data-state=open], [role=alertdialog][data-state=open]")].at(-1);
  function enter() {
    const dialog = asked();
    if (!dialog || dialog.contains(document.activeElement) || document.querySelector(LISTS)) return;
    (dialog.querySelector(FIELDS) || dialog.querySelector("button:not([disabled])") || dialog).focus();
  }
  document.addEventListener("focusin", (event) => { if (!event.target.closest(OVER)) requestAnimationFrame(enter); });
  new MutationObserver(() => requestAnimationFrame(enter)).observe(document.body, { childList: true });
  requestAnimationFrame(enter);

  /* A menu that closes gives the focus back to its button; the dialog takes it again and selects what its field holds, so that the
     next key would replace what was typed. The caret goes where it was before anybody can press one. */
  let left = null;
  document.addEventListener("focusout", ({ target }) => {
    if (!target.matches("input, textarea") || target.selectionStart === null || !target.closest("[role=dialog], [role=alertdialog]")) return;
    const was = left = { field: target, start: target.selectionStart, end: target.selectionEnd };
    setTimeout(() => { if (left === was) left = null; });
  }, true);
  document.addEventListener("focusin", ({ target }) => {
    if (left?.field !== target) return;
    const { start, end } = left;
    queueMicrotask(() => target.setSelectionRange(start, end));
  }, true);

  /* A dialog gives the focus back to what opened it: a button, or that of a menu. */
  let opener = null, wasAsked = false;
  document.addEventListener("focusin", ({ target }) => { if (!target.closest(OVER) && !asked()) opener = target; });
  new MutationObserver(() => requestAnimationFrame(() => {
    const { activeElement } = document;
    // A dialog that fades has the focus until it is removed.
    if (asked() || activeElement.closest("[role=dialog], [role=alertdialog]")) { wasAsked = true; return; }
    if (wasAsked && activeElement === document.body && opener?.isConnected) opener.focus();
    wasAsked = false;
  })).observe(document.body, { childList: true });

  /* The first field that was refused gets the focus, unless somebody types. */
  const CONTROLS = "input, textarea, [role=combobox]";
  const refused = () => [...document.querySelectorAll(".ry-f:has(> .err)")].map((place) => place.querySelector(CONTROLS)).find(Boolean);
  const isRefusal = (node) => node.nodeType === 1 && (node.matches(".ry-f > .err") || node.querySelector(".ry-f > .err"));
  new MutationObserver((changes) => {
    if (!changes.some(({ addedNodes }) => [...addedNodes].some(isRefusal))) return;
    if (!document.activeElement?.matches("input, textarea, select")) refused()?.focus();
  }).observe(document.body, { childList: true, subtree: true });

  /* Enter in a field is its dialog's own act: the field is left first, so that its text arrives before it. The act may
     wait for the server to let it; anyone who does something else meanwhile has changed their mind. */
  const PATIENCE_MS = 10_000;
  let pressed = null;
  function pressSoon(act, until) {
    if (pressed !== act || !act.isConnected || Date.now() > until) return;
    if (act.disabled || act.hasAttribute("data-disabled")) { requestAnimationFrame(() => pressSoon(act, until)); return; }
    pressed = null;
    act.click();
  }
  /* Escape or a click beside a form does not lose its contents: its way out gets the focus, and has to be pressed.
     At the window, because a dialog hears Escape at the document before anything in it does. */
  const typed = new WeakSet();
  document.addEventListener("input", ({ target }) => typed.add(target), true);
  function keep(event) {
    const form = asked();
    const leave = form?.matches("[role=dialog], :has(form)") && form.querySelector(".ry-sf button, .ry-dialog-acts button");
    if (!leave || document.querySelector(LISTS) || ![...form.querySelectorAll("input, textarea")].some((field) => typed.has(field))) return;
    event.stopPropagation();
    event.preventDefault();
    pressed = null;
    leave.focus();
  }
  window.addEventListener("keydown", (event) => { if (event.key === "Escape" && !event.isComposing) keep(event); }, true);
  window.addEventListener("pointerdown", (event) => { if (!event.target.closest(OVER)) keep(event); }, true);

  document.addEventListener("pointerdown", () => { pressed = null; }, true);
  document.addEventListener("keydown", (event) => { if (!event.repeat) pressed = null; }, true);
  document.addEventListener("keydown", (event) => {
    const field = event.target instanceof HTMLInputElement ? event.target : null;
    if (event.key !== "Enter" || event.isComposing || !field || field.form || field.matches("[data-search]")) return;
    const act = field.closest("[role=dialog], [role=alertdialog]")?.querySelector(".ry-dialog-acts > :last-child, .ry-sf > :last-child");
    if (!act?.matches("button")) return;
    event.preventDefault();
    field.blur();
    pressed = act;
    pressSoon(act, Date.now() + PATIENCE_MS);
  });
})();
