"""Measures the waiting time of a new person in each journey of the first hour, with hands that are never slow, and counts its acts.

The hands are Playwright's and the runner is a real one with OpenTofu, so what is left of the time is the product's.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, ViewportSize

from benchmarks.outcome import RESULTS, Outcome
from cli.folders import cache_folder
from stack.settings import PROJECT
from tests.e2e.product import PASSWORD, Product
from tests.integration.worker_bench import find_tofu
from tests.support.browser import start_chromium
from tests.support.stack import start_stack

SIZE: ViewportSize = {"width": 1440, "height": 900}
WORKS = 'resource "terraform_data" "one" {\n  input = 1\n}\n'
FAILS = 'resource "terraform_data" "one" {\n  input = local.nowhere\n}\n'


class Walk:
    """One new person with a browser and a terminal."""

    def __init__(self, page: Page, folder: Path) -> None:
        """Begin signed out, with nothing."""
        self._page, self._folder = page, folder
        self._email = f"new-{uuid.uuid4().hex[:8]}@example.com"
        self._command = ""
        self._runner: subprocess.Popen[bytes] | None = None
        self.acts = 0

    def sign_up(self) -> None:
        """From nothing to an organisation of one's own."""
        self._page.goto("/sign-up")
        self._fill(self._page.get_by_label("Email"), self._email)
        self._fill(self._page.get_by_label("Password"), PASSWORD)
        self._button("Create account")
        _see(self._page.get_by_role("button", name="Create organisation", disabled=False))
        self._fill(self._page.get_by_label("Name"), f"Journeys {self._email[4:12]}")
        self._button("Create organisation")
        _see(self._page.get_by_text("No runners yet"))
        self._see_live()

    def register(self) -> None:
        """Add the first runner; its command is ready to be copied."""
        self._press("n")
        sheet = self._page.get_by_role("dialog", name="Add runner")
        self._fill(sheet.get_by_label("Name", exact=True), "first")
        self._click(sheet.get_by_role("button", name="Register"))
        # The token comes a moment after the command that it stands in.
        shown = sheet.get_by_role("region", name="Start it").locator("pre", has_text="ryw_")
        _see(shown)
        self._command = shown.inner_text()

    def start(self) -> None:
        """Paste the command into a terminal; the sheet shows that the runner is online."""
        self.acts += 1
        with (self._folder / "runner.log").open("wb") as log:
            self._runner = subprocess.Popen(
                ["bash", "-c", self._command],
                env=environment(self._folder),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        sheet = self._page.get_by_role("dialog", name="Add runner")
        _see(sheet.get_by_text("first is online"))
        sheet.get_by_role("button", name="Done").click()

    def create_module(self) -> None:
        """Write a module by hand."""
        self._click(self._page.locator("a[href$='/modules']").first)
        self._button("New module")
        self._write_module("one", WORKS)

    def plan(self) -> None:
        """See the first line of a first plan."""
        self._click(self._page.get_by_role("button", name="Plan", exact=True))
        _see(self._page.locator(".ry-ll").first)
        _see(self._ended("SUCCEEDED"))

    def apply(self) -> None:
        """Ask for an apply, review its plan, confirm it, and see it applied."""
        self._open_module("one")
        self._click(self._page.get_by_role("button", name="Apply", exact=True))
        self._click(self._page.get_by_test_id("run"))
        self._click(self._page.get_by_test_id("confirm"))
        _see(self._ended("SUCCEEDED"))

    def fail(self) -> None:
        """Make a mistake, as everybody does: the plan of a second module fails."""
        self._click(self._page.locator("a[href$='/modules']").first)
        self._click(self._page.get_by_role("button", name="New", exact=True))
        self._click(self._page.get_by_role("menuitem", name="Module"))
        self._write_module("two", FAILS)
        self._click(self._page.get_by_role("button", name="Plan", exact=True))
        _see(self._ended("FAILED"))

    def find_failure(self) -> None:
        """Find the job that failed, and the line that says why."""
        self._open("/dashboard/runners")
        self._click(self._page.locator("a[href$='/jobs']").first)
        self._click(self._page.get_by_role("combobox", name="Status"))
        self._click(self._page.get_by_role("option", name="Failed"))
        self._click(self._page.locator("tr[data-status=FAILED] a[data-open]").first)
        _see(self._page.locator(".ry-ll", has_text="nowhere").first)

    def rotate(self) -> None:
        """Replace the runner's token while it works."""
        self._open("/dashboard/runners")
        self._click(self._page.get_by_role("link", name="first", exact=True))
        self._click(self._page.get_by_role("button", name="Rotate", exact=True))
        self._click(self._page.get_by_role("alertdialog").get_by_role("button", name="Create a new token"))
        shown = self._page.get_by_role("alertdialog", name="Copy the new token now")
        _see(shown.locator("ry-secret", has_text="ryw_"))
        shown.get_by_role("button", name="Done").click()

    def jump(self) -> None:
        """Go to a module by the palette."""
        self._press("Control+k")
        palette = self._page.get_by_test_id("palette")
        self._fill(palette.get_by_role("combobox"), "one")
        _see(palette.locator("[role=option][aria-selected=true]", has_text="platform/one"))
        self._press("Enter")
        _see(self._page.get_by_role("heading", name="one", exact=True))

    def invite(self) -> None:
        """Have a link for a teammate."""
        self._open("/dashboard/settings/members")
        self._click(self._page.get_by_role("button", name="Invite").first)
        dialog = self._page.get_by_role("dialog")
        self._fill(dialog.get_by_label(re.compile("E-?mail")), "colleague@example.org")
        self._click(dialog.get_by_role("button", name="Create invite link"))
        _see(dialog.get_by_role("button", name="Copy the link"))
        dialog.get_by_role("button", name="Done").click()

    def sign_in(self) -> None:
        """Come back the next day and see the runner."""
        self._page.context.clear_cookies()
        self._page.goto("/login")
        self._fill(self._page.get_by_label("Email"), self._email)
        self._press("Enter")
        self._fill(self._page.get_by_label("Password"), PASSWORD)
        self._press("Enter")
        _see(self._page.get_by_role("link", name="first", exact=True))

    def end(self) -> None:
        """Stop the runner, and wait until it has gone."""
        if self._runner is not None:
            os.killpg(self._runner.pid, signal.SIGTERM)
            self._runner.wait()

    def _write_module(self, name: str, text: str) -> None:
        sheet = self._page.get_by_role("dialog", name="New module")
        self._fill(sheet.get_by_label("Group", exact=True), "platform")
        self._fill(sheet.get_by_label("Name", exact=True), name)
        self._click(sheet.get_by_role("radio", name="Inline"))
        self._fill(sheet.get_by_label("Content"), text)
        self._click(sheet.get_by_role("button", name="Create module"))
        _see(self._page.get_by_role("heading", name=name, exact=True))

    def _see_live(self) -> None:
        """Wait until the page takes what is pressed; before, keys fall into nothing."""
        _see(self._page.get_by_role("status").filter(has_text="Live").first)

    def _open(self, path: str) -> None:
        self._page.goto(path)
        self._see_live()

    def _open_module(self, name: str) -> None:
        self._open(f"/dashboard/modules?path=platform/{name}")
        _see(self._page.get_by_role("heading", name=name, exact=True))

    def _ended(self, status: str) -> Locator:
        return self._page.locator(f".ry-head [data-status={status}]").first

    def _button(self, name: str) -> None:
        self._click(self._page.get_by_role("button", name=name))

    def _click(self, what: Locator) -> None:
        self.acts += 1
        what.click()

    def _fill(self, what: Locator, text: str) -> None:
        self.acts += 1
        what.fill(text)

    def _press(self, key: str) -> None:
        self.acts += 1
        self._page.keyboard.press(key)


JOURNEYS: tuple[tuple[str, Callable[[Walk], None]], ...] = (
    ("sign up, to an empty organisation", Walk.sign_up),
    ("add a runner, to its command", Walk.register),
    ("start it, to online", Walk.start),
    ("write a module, to its page", Walk.create_module),
    ("plan it, to the result", Walk.plan),
    ("apply: plan, review, confirm, to applied", Walk.apply),
    ("write a module that fails, to its error", Walk.fail),
    ("find the failed job, to the line that says why", Walk.find_failure),
    ("rotate a token, to the new one", Walk.rotate),
    ("jump to a module by the palette", Walk.jump),
    ("invite a teammate, to the link", Walk.invite),
    ("sign in the next day, to the runner", Walk.sign_in),
)


def _see(what: Locator) -> None:
    what.wait_for()


def environment(folder: Path) -> dict[str, str]:
    """A terminal that has `runyard-worker`; OpenTofu is where `make up` keeps it, and not on its path."""
    if find_tofu() is None:
        raise FileNotFoundError("OpenTofu is not there; `make engines` provides it")
    tool = folder / "bin" / "runyard-worker"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m worker.cli "$@"\n')
    tool.chmod(0o755)
    path, cache = f"{tool.parent}:{os.environ['PATH']}", str(cache_folder().parent)
    return {"PATH": path, "PYTHONPATH": str(PROJECT), "HOME": str(folder), "XDG_CACHE_HOME": cache}


def walk(page: Page, folder: Path, outcome: Outcome) -> None:
    """Every journey once, in the order a person makes them: each stands on those before, so the first that fails is the last."""
    steps = Walk(page, folder)
    try:
        for name, journey in JOURNEYS:
            steps.acts, began = 0, time.monotonic()
            journey(steps)
            seconds = round(time.monotonic() - began, 2)
            outcome.parts["journeys"].append({"journey": name, "acts": steps.acts, "seconds": seconds})
    except Exception:
        RESULTS.mkdir(exist_ok=True)
        page.screenshot(path=RESULTS / "journeys.png")
        print((folder / "runner.log").read_text()[-2000:] if (folder / "runner.log").exists() else "no runner yet")
        raise
    finally:
        steps.end()


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    print(f"{'journey':<50}{'acts':>6}{'seconds':>10}")
    for row in result["journeys"]:
        print(f"{row['journey']:<50}{row['acts']:>6}{row['seconds']:>10}")
    print(f"\nload {result['load']} on {os.cpu_count()} cores")


def main() -> None:
    """Measure, write JSON, print the table."""
    outcome = Outcome("journeys", {"journeys": []})
    with outcome.part("the walk"), tempfile.TemporaryDirectory(prefix="runyard-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with start_stack(folder, "--no-demo") as stack, start_chromium() as browser:
            walk(browser.new_page(base_url=Product(stack).url, viewport=SIZE), folder, outcome)
    outcome.parts["load"] = round(os.getloadavg()[0], 1)
    show(outcome.parts)
    outcome.keep()


if __name__ == "__main__":
    main()
