"""Takes the pictures of README and docs from a running `make up`, light and dark, wide and narrow."""

import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cli.launcher.demo.prepare import DEMO_EMAIL
from stack.settings import PROJECT, Settings

FOLDER = PROJECT / "docs" / "images"
WIDE, NARROW = (1440, 900), (390, 844)
PAGES = {"runners": "/dashboard/runners", "jobs": "/dashboard/jobs", "modules": "/dashboard/modules"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Sign in as the demo's person and photograph each page; exit code 1 when nothing runs."""
    settings = Settings()
    if not settings.secrets_file.exists():
        print("Nothing runs here: start it with `make up`, then try again.", file=sys.stderr)
        return 1
    password = json.loads(settings.secrets_file.read_text())["demo_password"]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            photograph(browser, settings.dashboard_url, password, scheme, WIDE)
        photograph(browser, settings.dashboard_url, password, "light", NARROW)
        browser.close()
    return 0


def photograph(browser: Browser, url: str, password: str, scheme: str, size: tuple[int, int]) -> None:
    """Take every page in one colour scheme and one size."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    sign_in(page, url, password)
    suffix = scheme if size == WIDE else f"{size[0]}-{scheme}"
    for name, path in PAGES.items():
        page.goto(url + path)
        settle(page)
        save(page, f"{name}-{suffix}")
    page.goto(f"{url}/dashboard/jobs")
    settle(page)
    newest = page.locator("tr[data-status=SUCCEEDED] a[data-open]").first.get_attribute("href")
    page.goto(f"{url}{newest}")
    settle(page)
    save(page, f"job-{suffix}")
    page.close()


def sign_in(page: Page, url: str, password: str) -> None:
    """Fill in the form as a person does."""
    page.goto(f"{url}/login")
    page.fill("input[type=email]", DEMO_EMAIL)
    page.fill("input[type=password]", password)
    page.keyboard.press("Enter")
    page.wait_for_url("**/dashboard/**")
    settle(page)


def settle(page: Page) -> None:
    """Wait until the page is live and its rows are there."""
    page.get_by_role("status").filter(has_text="Live").first.wait_for(timeout=60_000)
    page.wait_for_timeout(1500)


def save(page: Page, name: str) -> None:
    """Write one picture."""
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    print(path.relative_to(PROJECT))


if __name__ == "__main__":
    sys.exit(main())
