// The command palette: Ctrl K opens it, arrows move the choice, Enter follows it. Its results come from the server.
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

  // Characters typed before the field has the focus belong to the field, not to the page's own keys.
  const PATIENCE = 10_000;
  let early = null;
  // Whether it was opened and not left again; its field, and the field's text, since each page has a field of its own.
  let isWanted = false, last = null, kept = "";
  const wait = (text) => {
    const mine = (early = { text });
    isWanted = true;
    last = null;
    setTimeout(() => { if (early === mine) leave(); }, PATIENCE);
  };
  const leave = () => { isWanted = false; early = null; };
  const open = (mine) => {
    const button = document.querySelector("[data-palette]");
    if (early !== mine || input()) return;
    if (button && window.runyard.isListening(button)) button.click();
    else requestAnimationFrame(() => open(mine));
  };
  const keepEarly = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") leave();
    else if (event.key === "Backspace") early.text = early.text.slice(0, -1);
    else if (event.key.length === 1) early.text += event.key;
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  document.addEventListener("focusin", (event) => {
    const field = event.target;
    if (!isWanted || !field.matches("[data-pal-input]") || field === last) return;
    const text = early ? early.text : kept;
    early = null;
    last = field;
    kept = "";
    if (text) window.runyard.write(field, text);
  });
  document.addEventListener("input", (event) => { if (event.target.matches("[data-pal-input]")) kept = event.target.value; }, true);
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest?.(".ry-pal")) leave(); }, true);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-pal]")) leave();
    else if (event.target.closest?.("[data-palette]") && !early && !input()) wait("");
  }, true);
  // Each word that was typed is marked where a line has it; the text itself stays as it was drawn.
  const mark = () => {
    const words = input().value.toLowerCase().split(/[\s>]+/).filter(Boolean);
    const ranges = items().flatMap((item) => {
      const node = item.querySelector(".ry-el").firstChild, text = node.data.toLowerCase();
      return words.filter((word) => text.includes(word)).map((word) => {
        const range = new Range(), at = text.indexOf(word);
        range.setStart(node, Math.min(at, node.length));
        range.setEnd(node, Math.min(at + word.length, node.length));
        return range;
      });
    });
    CSS.highlights?.set("ry-found", new Highlight(...ranges));
  };
  // A new answer begins with its first line.
  const look = () => {
    if (input()) mark();
    if (input() && items().length && chosen() < 0) choose(0);
    // Another page came, with a field of its own: what was typed, and is being typed, is for that one.
    if (isWanted && !early && last && !last.isConnected && document.querySelector("[data-palette]")) wait(kept);
  };
  new MutationObserver(look).observe(document.documentElement, { subtree: true, childList: true, characterData: true });

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      if (!document.querySelector("[data-palette]")) return;
      event.preventDefault();
      // A modal dialog of the browser would stand over it.
      document.querySelector("dialog[open]")?.close();
      if (!input() && !early) { wait(""); open(early); }
      return;
    }
    if (event.key === "Escape" && !early) leave();
    if (early) { keepEarly(event); return; }
    if (event.target !== input() || event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen() + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter") {
      event.preventDefault();
      const item = items()[chosen()];
      if ((event.ctrlKey || event.metaKey) && item?.href) window.open(item.href, "_blank", "noopener");
      else item?.click();
    }
  }, true);

  // "Add runner…" leads to its page, and there presses its key; until that page has come, the one that is left
  // is still there, perhaps with a key of its own.
  const isAt = (path) => location.pathname.replace(/\/$/, "") === path.replace(/\/$/, "");
  document.addEventListener("click", (event) => {
    const item = event.target.closest?.("[data-pal]");
    const key = item?.getAttribute("data-then");
    if (!key) return;
    const to = item.href && new URL(item.href, location.href);
    // The page is open already: to load it again would close the dialog that the key opens.
    if (to && isAt(to.pathname) && to.search === location.search) event.preventDefault();
    sessionStorage.setItem(THEN, key);
    const until = Date.now() + 10_000;
    const there = to ? to.pathname : location.pathname;
    const button = () => document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    const left = isAt(there) ? null : button();
    const press = () => {
      const target = !input() && isAt(there) && button();
      if (target && target !== left) { sessionStorage.removeItem(THEN); target.click(); }
      else if (Date.now() < until && sessionStorage.getItem(THEN)) setTimeout(press, 100);
    };
    setTimeout(press, 300);
  }, true);
})();
