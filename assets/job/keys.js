// The log's keys: f follow, n and N hits, [ and ] steps. Off while typing.

const TYPING = "input, textarea, select, [contenteditable]";

export function attachKeys(view) {
  const acts = {
    f: () => (view.isFollowing ? view.unfollow() : view.follow()),
    n: () => view.search.isOn && view.step(1),
    N: () => view.search.isOn && view.step(-1),
    "[": () => view.stepTo(-1),
    "]": () => view.stepTo(1),
    Escape: () => view.isFull && view.toggleFull(),
  };
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !view.model) return;
    if (event.target.closest?.(TYPING) || document.querySelector("[role=dialog], [role=alertdialog], [role=menu]")) return;
    const act = acts[event.key];
    if (!act || (event.key === "Escape" && !view.isFull)) return;
    act();
    event.preventDefault();
    event.stopImmediatePropagation(); // n would add a runner elsewhere
  };
  window.addEventListener("keydown", onKey, true);
  return () => window.removeEventListener("keydown", onKey, true);
}
