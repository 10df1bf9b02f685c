"""Takes the docs' pictures from a running demo; with a folder, every page there instead, light and dark, wide and narrow."""

import base64
import json
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cli.client import auth
from cli.client.api import Api
from cli.client.http import Connection
from cli.launcher.demo.prepare import DEMO_EMAIL, ORGANISATION
from stack.settings import PROJECT, Settings
from tests.support.browser import start_chromium

FOLDER = PROJECT / "docs" / "images"
SIZE = (1280, 800)
WIDTHS = (1440, 785, 390)
QUALITY = 80
MODULE = ("payments", "queue")
PATHS = {
    "runners": "/dashboard/runners",
    "jobs": "/dashboard/jobs",
    "module": "/dashboard/modules?path=payments/queue",
    "group": "/dashboard/modules?path=platform",
    "figures": "/dashboard/figures",
    "events": "/dashboard/events",
    "schedules": "/dashboard/jobs/schedules",
    "versions": "/dashboard/runners/versions",
    "account": "/dashboard/account",
    "palette": "/dashboard/runners",
    "add-runner": "/dashboard/runners",
    **{
        name: f"/dashboard/settings/{name}"
        for name in (
            "members", "cloud-identities", "service-accounts", "git", "notifications", "audit", "organisation",
        )
    },
}  # fmt: skip
SIGNED_OUT = {"sign-in": "/login", "sign-up": "/sign-up", "forgotten": "/forgotten"}
OVER_A_PAGE = ("palette", "add-runner")
IN_DOCS = ("runners", "module", "figures", "job", "review", "add-runner")


def main(folder: str = "") -> int:
    """Sign in as the demo's person and photograph; exit code 1 when nothing runs."""
    settings = Settings()
    if not settings.secrets_file.exists():
        print("Nothing runs here: start the demo with `runyard up`, then try again.", file=sys.stderr)
        return 1
    secrets = json.loads(settings.secrets_file.read_text())
    found = review_something(settings, secrets)
    with start_chromium() as browser:
        sign_in = opener(browser, settings.dashboard_url, secrets["demo_password"])
        if folder:
            every_page(sign_in, Path(folder), {**PATHS, **found})
        else:
            for_docs(sign_in(SIZE, "light"), {name: {**PATHS, **found}[name] for name in IN_DOCS})
    return 0


def review_something(settings: Settings, secrets: dict[str, str]) -> dict[str, str]:
    """Apply a module, change it and plan again, so that there is a plan to review; returns the pages of jobs and of a runner."""
    connection = Connection(settings.url)
    session = auth.sign_in(connection, secrets["publishable_key"], DEMO_EMAIL, secrets["demo_password"])
    api = Api(connection, secrets["publishable_key"], session.access_token)
    org = next(one["id"] for one in api.call("my_organizations") if one["slug"] == ORGANISATION[1])
    kept = api.rows("modules", select="id", org_id=f"eq.{org}", path="eq.payments/queue", deleted_at="is.null")
    group, name = MODULE
    module = kept or [api.call("create_module", org=org, group_path=group, name=name, spec=spec(3))]
    api.call("update_module", module=module[0]["id"], spec=spec(3))
    applied = run(api, org, module[0]["id"], "APPLY")
    api.call("update_module", module=module[0]["id"], spec=spec(5, "retry"))
    planned = run(api, org, module[0]["id"], "PLAN", confirm=True)
    jobs = {"job": applied, "review": planned, **others(api, org)}
    runner = api.rows("workers", select="id", org_id=f"eq.{org}", name="eq.build-host-01")[0]["id"]
    connection.close()
    return {"runner": f"/dashboard/runners/{runner}", **{name: f"/dashboard/jobs/{at}" for name, at in jobs.items()}}


def others(api: Api, org: str) -> dict[str, int]:
    """Find the demo's jobs by name: one that no runner may take, and one that waits for an approval."""
    asked = {"job-waiting": "QUEUED", "job-approval": "AWAITING_APPROVAL"}
    rows = {
        name: api.rows("provision_jobs", select="number", org_id=f"eq.{org}", status=f"eq.{status}", order="id")
        for name, status in asked.items()
    }
    return {name: found[0]["number"] for name, found in rows.items() if found}


def spec(nodes: int, *more: str) -> dict[str, Any]:
    """A module with a few resources of the engine's own."""
    names = ("ledger", "alarms", *more)
    resources = {name: {"input": {"name": name, "nodes": nodes, "zone": "eu-west"}} for name in names}
    main = {"resource": {"terraform_data": resources}, "output": {"queues": {"value": names}}}
    files = {"main.tf.json": json.dumps(main, indent=2)}
    return {
        "description": "Queues of the ledger",
        "source_kind": "inline",
        "source": {"files": files},
        "engine": "tofu",
    }


def run(api: Api, org: str, module: str, kind: str, **options: Any) -> int:
    """Run a job to its end; its number."""
    job = api.call("enqueue_job", org=org, type=kind, module=module, options=options)
    while api.rows("provision_jobs", select="status", id=f"eq.{job['id']}")[0]["status"] != "SUCCEEDED":
        time.sleep(1)
    return int(job["number"])


def opener(browser: Browser, url: str, password: str) -> Callable[[tuple[int, int], Any], Page]:
    """Sign in once; each page after that has its own size and scheme."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{url}/login")
    page.fill("input[type=email]", DEMO_EMAIL)
    page.keyboard.press("Enter")
    page.fill("input[type=password]", password)
    page.keyboard.press("Enter")
    page.wait_for_url("**/o/**")
    cookies = context.cookies()

    def signed_in(size: tuple[int, int], scheme: Any) -> Page:
        made = browser.new_context(
            base_url=url, viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce"
        )
        made.add_cookies([{"name": each["name"], "value": each["value"], "url": url} for each in cookies])
        return made.new_page()

    return signed_in


def unfold(page: Page) -> None:
    """Show a resource of the plan by attribute."""
    page.get_by_test_id("plan-resource").get_by_role("button", expanded=False).first.click()
    page.get_by_test_id("plan-attributes").wait_for()


def hide_steps(page: Page) -> None:
    """Put the first steps away, so that the fleet is in sight."""
    hide = page.get_by_role("button", name="Hide", exact=True)
    if hide.is_visible():
        hide.click()
        hide.wait_for(state="hidden")


def last_hour(page: Page) -> None:
    """A demo has not run for longer."""
    page.get_by_role("radio", name="1 h").click()
    page.wait_for_timeout(1500)


def open_palette(page: Page) -> None:
    """Ask for something by its name."""
    page.keyboard.press("Control+k")
    page.get_by_test_id("palette").get_by_role("combobox").fill("queue")
    page.wait_for_timeout(1000)


def open_sheet(page: Page) -> None:
    """Begin to add a runner."""
    page.keyboard.press("n")
    page.get_by_role("dialog", name="Add runner").get_by_label("Name", exact=True).fill("build-host-03")


READY: dict[str, Callable[[Page], None]] = {
    "review": unfold,
    "runners": hide_steps,
    "figures": last_hour,
    "palette": open_palette,
    "add-runner": open_sheet,
}


def prepare(page: Page, name: str) -> None:
    """Bring a page into the state that its picture shows."""
    if name in READY:
        READY[name](page)


def for_docs(page: Page, paths: dict[str, str]) -> None:
    """The docs' own pictures: small and light."""
    for name, path in paths.items():
        show(page, path)
        prepare(page, name)
        save_small(page, name)


def every_page(sign_in: Callable[[tuple[int, int], Any], Page], folder: Path, paths: dict[str, str]) -> None:
    """All pages whole, to be held beside the mock-ups; each in a window of its own, where nothing is open yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for scheme, width in product(("light", "dark"), WIDTHS):
        for name, path in {**paths, **SIGNED_OUT}.items():
            page = sign_in((width, 900), scheme)
            if name in SIGNED_OUT:
                page.context.clear_cookies()
                page.goto(path)
                page.get_by_role("heading").first.wait_for()
            else:
                show(page, path)
                prepare(page, name)
            # An overlay belongs to the window, not to the page's length.
            is_whole = name not in OVER_A_PAGE
            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=is_whole)
            page.context.close()


def show(page: Page, path: str) -> None:
    """Open a page and wait until it is live and has stopped asking."""
    page.goto(path)
    page.get_by_role("status").filter(has_text="Live").first.wait_for(timeout=60_000)
    page.wait_for_timeout(1500)


def save_small(page: Page, name: str) -> None:
    """Write one picture for the docs."""
    asked = {"format": "webp", "quality": QUALITY}
    answer = page.context.new_cdp_session(page).send("Page.captureScreenshot", asked)
    path = FOLDER / f"{name}.webp"
    path.write_bytes(base64.b64decode(answer["data"]))
    print(f"{path.relative_to(PROJECT)}  {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
