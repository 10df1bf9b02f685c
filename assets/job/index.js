// The job page's own elements.
import "./log.js";
import "./timeline.js";

// A resource of the plan leads to its lines in the log.
document.addEventListener("click", (event) => {
  const address = event.target.closest?.("[data-log-find]")?.dataset.logFind;
  if (address) document.querySelector("ry-log")?.view?.find([`# ${address} `, `${address}:`, address]);
});
