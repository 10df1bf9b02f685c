"""The log in a real browser: the element and the parser as they ship, the network answered from here."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from app.jobs.log import pages
from app.jobs.log.routes import pattern
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
ORIGIN = "http://runyard.test"
HOSTILE = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\x1b]8;;javascript:document.title='owned'\x07link\x1b]8;;\x07",
    "\x1b[2J\x1b[Hcleared \u202egnp.exe",
    "</span></div><style>*{display:none!important}</style>",
]
STEPS = [
    {"name": "init", "title": "Init", "status": "SUCCEEDED", "from_ms": 1_000, "to_ms": 15_000},
    {"name": "apply", "title": "Apply", "status": "RUNNING", "from_ms": 15_000, "to_ms": 0},
]
HTML = """<!doctype html><html class="light"><head><meta charset="utf-8">
<link rel="stylesheet" href="/css/tokens.css"><link rel="stylesheet" href="/css/ui.css"><link rel="stylesheet" href="/css/log.css">
<script type="module" src="/job/index.js"></script></head>
<body class="radix-themes" style="padding-top:48px">
<ry-log class="ry-log" job="7" attempt="1" seq="0" status="PROCESSING" main="apply"></ry-log></body></html>"""
TYPES = {".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2"}


class Log:
    """The chunks that a job has written so far."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.is_down = False

    def add(self, step: str, body: str, skip: int = 0) -> None:
        seq = (self.rows[-1]["seq"] if self.rows else 0) + 1 + skip
        stamp = "2026-11-15T14:00:00+00:00"
        row = {"seq": seq, "step": step, "body": body, "line_count": body.count("\n"), "bytes": len(body)}
        self.rows.append({**row, "created_at": stamp})

    def answer(self, route: Route) -> None:
        url = urlsplit(route.request.url)
        words = parse_qs(url.query).get("q", [""])[0]
        query = {name: int(values[0]) for name, values in parse_qs(url.query).items() if name != "q"}
        self.asked.append(url.path.rsplit("/", 1)[-1])
        if self.is_down:
            route.fulfill(status=503, body="")
        elif url.path.endswith("/find"):
            found = [row for row in self.rows if query["from"] <= row["seq"] <= query["to"]]
            hits = [row["seq"] for row in found if re.search(pattern(words), row["body"], re.IGNORECASE)]
            route.fulfill(json={"seqs": hits})
        elif url.path.endswith("/index"):
            found = [row for row in self.rows if row["seq"] > query["after"]]
            route.fulfill(json={**pages.index(found[:500]), "more": len(found) > 500})
        else:
            found = [row for row in self.rows if query["from"] <= row["seq"] <= query["to"]]
            route.fulfill(json={"chunks": pages.page(found)})


def serve_file(route: Route) -> None:
    path = urlsplit(route.request.url).path
    file = ROOT / "assets" / path.lstrip("/")
    if path == "/":
        route.fulfill(body=HTML, content_type="text/html")
    elif file.is_file():
        route.fulfill(body=file.read_bytes(), content_type=TYPES.get(file.suffix, "application/octet-stream"))
    else:
        route.fulfill(status=404, body="")


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def show(chromium: Browser, log: Log) -> Iterator[Callable[..., Page]]:
    page = chromium.new_page(viewport={"width": 900, "height": 700})
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.route(f"{ORIGIN}/**", serve_file)
    page.route(f"{ORIGIN}/api/**", log.answer)

    def opened(hash_: str = "", plan: Log | None = None, **attributes: str) -> Page:
        if plan is not None:
            page.route(f"{ORIGIN}/api/jobs/6/**", plan.answer)
            attributes["plan"] = json.dumps({"job": 6, "attempt": 1, "day": "", "steps": STEPS[:1]})
        page.goto(f"{ORIGIN}/{hash_}")
        set_attributes(page, steps=json.dumps(STEPS), **attributes)
        return page

    yield opened
    page.close()
    assert failures == []


def set_attributes(page: Page, **attributes: str) -> None:
    script = "all => { const log = document.querySelector('ry-log'); for (const [k, v] of Object.entries(all)) log.setAttribute(k, v) }"
    page.evaluate(script, attributes)


def ring(page: Page, log: Log) -> None:
    """Do what the dashboard does when a chunk has arrived: change one small attribute."""
    set_attributes(page, seq=str(log.rows[-1]["seq"]))


def gap_to_end(page: Page) -> float:
    return float(
        page.evaluate(
            "() => { const b = document.querySelector('.ry-lb'); return b.scrollHeight - b.clientHeight - b.scrollTop }"
        )
    )


# Where the log is scrolled to, once the wheel's own movement has ended.
RESTING = """async () => {
  const box = document.querySelector('.ry-lb');
  for (let before = -1, still = 0; still < 20;) {
    await new Promise((done) => requestAnimationFrame(done));
    still = box.scrollTop === before ? still + 1 : 0;
    before = box.scrollTop;
  }
  return box.scrollTop;
}"""


def resting(page: Page) -> float:
    return float(page.evaluate(RESTING))


def test_hostile_output_is_text(show: Callable[..., Page], log: Log) -> None:
    log.add("apply", "\n".join(HOSTILE) + "\n")
    page = show()
    expect(page.locator("#L5")).to_be_visible()
    expect(page.locator("#L1 > span")).to_have_text(HOSTILE[0])
    expect(page.locator("#L3 > span")).to_have_text("link")
    expect(page.locator("#L4 > span")).to_have_text("cleared gnp.exe")
    assert page.title() != "owned"
    assert page.locator("ry-log script, ry-log img, ry-log style, ry-log .ry-ll a[href^=javascript]").count() == 0


def test_colours_become_class_names(show: Callable[..., Page], log: Log) -> None:
    log.add("apply", "\x1b[1m\x1b[31mError:\x1b[0m no\n")
    page = show()
    expect(page.locator("#L1 .a-b.a-r")).to_have_text("Error:")


def test_finished_steps_are_folded_and_open_on_demand(show: Callable[..., Page], log: Log) -> None:
    log.add("init", "one\ntwo\n")
    log.add("apply", "three\n")
    page = show()
    expect(page.locator("#L3")).to_be_visible()
    expect(page.locator("#L1")).to_have_count(0)
    head = page.get_by_role("button", name="Init")
    expect(head).to_contain_text("2 lines")
    head.click()
    expect(page.locator("#L1")).to_be_visible()


def test_the_log_follows_until_the_reader_scrolls_up_and_shows_whether_it_follows(
    show: Callable[..., Page], log: Log
) -> None:
    log.add("apply", "line\n" * 400)
    page = show()
    expect(page.locator("#L400")).to_be_visible()
    expect(page.get_by_text("Following. Scroll up to stop.")).to_be_visible()
    log.add("apply", "newest\n")
    ring(page, log)
    expect(page.locator("#L401")).to_be_visible()
    page.locator(".ry-lb").hover()
    page.mouse.wheel(0, -2000)
    expect(page.get_by_text("Not following: new lines do not move the log.")).to_be_visible()
    before = resting(page)
    log.add("apply", "more\n" * 50)
    ring(page, log)
    expect(page.get_by_text("451 lines")).to_be_visible()
    assert resting(page) == before
    page.keyboard.press("f")
    expect(page.locator("#L451")).to_be_visible()
    wait_until(lambda: gap_to_end(page) < 5)


def test_only_visible_lines_are_in_the_page(show: Callable[..., Page], log: Log) -> None:
    for _ in range(600):
        log.add("apply", "aws_eks_node_group.spot: Still destroying\n" * 1_000)
    page = show()
    expect(page.get_by_text("600,000 lines")).to_be_visible()
    expect(page.locator("#L600000")).to_be_visible()
    assert page.locator(".ry-ll").count() < 150
    page.evaluate("() => { document.querySelector('.ry-lb').scrollTop = 0 }")
    expect(page.locator("#L1")).to_be_visible()
    expect(page.locator("#L1 > span")).to_have_text("aws_eks_node_group.spot: Still destroying")


def test_search_finds_marks_and_steps(show: Callable[..., Page], log: Log) -> None:
    log.add("init", "a needle here\n")
    log.add("apply", "hay\n" * 300 + "N\x1b[31meed\x1b[0mle and needle\n" + "hay\n" * 300)
    page = show()
    page.get_by_label("Search the log").fill("needle")
    hits = page.locator(".ry-lt .ry-n")
    expect(hits).to_have_text(re.compile(r"\d of 3$"))
    page.locator(".ry-lb").focus()
    at = int(hits.inner_text().split()[0])
    for _ in range(3):
        at = at % 3 + 1
        page.keyboard.press("n")
        expect(hits).to_have_text(f"{at} of 3")
        expect(page.locator(f"#{'L1' if at == 1 else 'L302'} mark.now").first).to_be_visible()
    page.keyboard.press("N")
    expect(hits).to_have_text(f"{(at + 1) % 3 + 1} of 3")
    page.get_by_label("Search the log").fill("absent")
    expect(page.get_by_text("no hits")).to_be_visible()


def test_a_long_log_is_searched_without_reading_it(show: Callable[..., Page], log: Log) -> None:
    for number in range(200):
        log.add(
            "apply",
            "aws_eks_node_group.spot: Still destroying\n" * 1_000 + ("a nee\x1b[31mdle\n" if number == 77 else ""),
        )
    page = show()
    expect(page.get_by_text("200,001 lines")).to_be_visible()
    # A line has its place before it is read: visible lines are requested before the search begins.
    expect(page.locator("#L200001 > span")).to_have_text("aws_eks_node_group.spot: Still destroying")
    read = log.asked.count("lines")
    page.get_by_label("Search the log").fill("needle")
    expect(page.locator(".ry-lt .ry-n")).to_have_text("1 of 1")
    expect(page.locator("#L78001 mark.now").first).to_be_visible()
    assert log.asked.count("lines") - read <= 4


def test_a_line_link_opens_its_step_and_shows_it(show: Callable[..., Page], log: Log) -> None:
    log.add("init", "line\n" * 500)
    log.add("apply", "last\n" * 3)
    page = show("#L250")
    expect(page.locator("#L250.on")).to_be_visible()
    page.locator("#L252 > a").click()
    expect(page.locator("#L252.on")).to_be_visible()
    page.wait_for_url(re.compile("#L252$"))


def test_a_gap_is_shown_and_closes_when_its_part_arrives(show: Callable[..., Page], log: Log) -> None:
    log.add("apply", "one\n")
    log.add("apply", "three\n", skip=1)
    page = show()
    expect(page.get_by_text("Part 2 of the log has not arrived yet.")).to_be_visible()
    late = log.rows.pop()
    log.add("apply", "two\n")
    log.rows.append(late)
    log.add("apply", "four\n")
    ring(page, log)
    expect(page.get_by_text("Part 2 of the log")).to_have_count(0)
    expect(page.locator("#L3 > span")).to_have_text("three")


def test_wrap_times_and_full_screen(show: Callable[..., Page], log: Log) -> None:
    log.add("apply", "x" * 1_000 + "\nshort\n")
    page = show()
    expect(page.locator("#L2")).to_be_visible()
    page.wait_for_function("() => document.querySelector('#L1')?.getBoundingClientRect().height < 25")
    page.get_by_label("Wrap lines").click()
    page.wait_for_function("() => document.querySelector('#L1')?.getBoundingClientRect().height > 100")
    page.get_by_label("Show times").click()
    expect(page.locator("#L1 time")).to_be_visible()
    page.get_by_label("Full screen").click()
    page.wait_for_function("() => document.querySelector('ry-log').getBoundingClientRect().height > 650")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('ry-log').classList.contains('full')")


def test_no_log_yet_and_a_log_that_cannot_be_read(show: Callable[..., Page], log: Log) -> None:
    page = show(attempt="0", status="QUEUED")
    expect(page.get_by_text("It starts when a runner takes the job.")).to_be_visible()
    log.is_down = True
    set_attributes(page, attempt="1", status="PROCESSING")
    expect(page.get_by_text("The log could not be read. Nothing was changed.")).to_be_visible()
    log.is_down = False
    log.add("apply", "back\n")
    ring(page, log)
    expect(page.locator("#L1")).to_be_visible()


def test_an_earlier_attempt_can_be_read(show: Callable[..., Page], log: Log) -> None:
    log.add("apply", "line\n")
    page = show(attempt="2")
    expect(page.locator("#L1")).to_be_visible()
    with page.expect_request(lambda request: "attempt=1" in request.url):
        page.get_by_label("Attempt").select_option("1")
    expect(page.get_by_label("Download")).to_have_attribute("href", "/api/jobs/7/log.txt?attempt=1")


def test_a_selection_survives_new_lines(show: Callable[..., Page], log: Log) -> None:
    log.add("apply", "keep me\nother\n")
    page = show()
    expect(page.locator("#L1 > span")).to_have_text("keep me")
    page.evaluate("() => getSelection().selectAllChildren(document.querySelector('#L1 > span'))")
    log.add("apply", "next\n")
    ring(page, log)
    expect(page.locator("#L3")).to_be_visible()
    assert page.evaluate("() => getSelection().toString().trim()") == "keep me"


def test_another_jobs_log_never_stays_under_a_job_that_has_none(show: Callable[..., Page], log: Log) -> None:
    log.add("apply", "of the seventh job\n")
    page = show()
    expect(page.get_by_text("of the seventh job")).to_be_visible()
    set_attributes(page, job="8", attempt="0", status="QUEUED", steps="[]")
    expect(page.get_by_text("of the seventh job")).to_be_hidden()
    set_attributes(page, job="7", attempt="1", status="SUCCEEDED")
    expect(page.get_by_text("of the seventh job")).to_be_visible()


def test_the_apply_continues_the_log_of_its_plan(show: Callable[..., Page], log: Log) -> None:
    plan_log = Log()
    plan_log.add("init", "getting ready\n")
    plan_log.add("plan", "the plan\nits last line\n")
    log.add("init", "getting ready\n")
    log.add("apply", "the apply\n")
    page = show("#L3", plan=plan_log, phase="Apply")
    marked = page.locator(".ry-ll.on > span")
    expect(marked).to_have_text("its last line")
    expect(page.get_by_role("separator", name="Apply")).to_be_visible()
    page.evaluate("location.hash = '#L5'")
    expect(marked).to_have_text("the apply")
