// The command palette: Ctrl K opens it, arrows move the choice, Enter follows it. What it finds comes from the server.
(() => {
  const THEN = "runyard-then";
  const items = () => [...document.querySelectorAll("[data-pal]")];
  const input = () => document.querySelector("[data-pal-input]");
  const chosen = () => items().findIndex((item) => item.getAttribute("aria-selected") === "true");

  const choose = (at) => {
    const all = items();
    if (!all.length) return;
    const next = (at + all.length) % all.length;
    all.forEach((item, index) => item.setAttribute("aria-selected", index === next ? "true" : "false"));
    all[next].scrollIntoView({ block: "nearest" });
    input()?.setAttribute("aria-activedescendant", all[next].id);
  };

  // A new answer begins with its first line.
  new MutationObserver(() => {
    if (input() && items().length && chosen() < 0) choose(0);
  }).observe(document.documentElement, { subtree: true, childList: true });

  // What is typed between the key and the field's focus belongs to the field, not to the page's own keys.
  const PATIENCE = 5000;
  let early = null;
  const wait = () => {
    const mine = (early = { text: "" });
    setTimeout(() => { if (early === mine) early = null; }, PATIENCE);
  };
  const keepEarly = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") early = null;
    else if (event.key === "Backspace") early.text = early.text.slice(0, -1);
    else if (event.key.length === 1) early.text += event.key;
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  document.addEventListener("focusin", (event) => {
    if (!early || event.target !== input()) return;
    const { text } = early;
    early = null;
    if (!text) return;
    // Set past React's own setter, so that it sees a change and asks the server.
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(event.target, text);
    event.target.dispatchEvent(new Event("input", { bubbles: true }));
  });

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      const button = document.querySelector("[data-palette]");
      if (!button) return;
      event.preventDefault();
      if (!input()) { wait(); button.click(); }
      return;
    }
    if (early) { keepEarly(event); return; }
    if (event.target !== input() || event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen() + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter") {
      event.preventDefault();
      items()[chosen()]?.click();
    }
  }, true);

  // "Add runner…" leads to its page, and there presses the key that stands for it.
  document.addEventListener("click", (event) => {
    const key = event.target.closest?.("[data-pal]")?.getAttribute("data-then");
    if (!key) return;
    sessionStorage.setItem(THEN, key);
    const until = Date.now() + 10_000;
    const press = () => {
      const target = !input() && document.querySelector(`.ry-page [data-key="${CSS.escape(key)}"]`);
      if (target) { sessionStorage.removeItem(THEN); target.click(); }
      else if (Date.now() < until && sessionStorage.getItem(THEN)) setTimeout(press, 100);
    };
    setTimeout(press, 300);
  }, true);
})();
