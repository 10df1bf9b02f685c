"""A reader of the documentation: a new user who types the shell blocks of a page into a terminal."""

import os
import pty
import re
import subprocess
import sys
import termios
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from stack.settings import PROJECT
from tests.integration.worker_bench import Bench, find_tofu
from tests.support.pages import Block
from tests.support.stack import RunningStack, clean_environment
from tests.support.waiting import wait_until
from tests.unit.worker.steps.git_places import make_repository

CODE = """
variable "region" { default = "" }
resource "terraform_data" "greeting" { input = "hello world" }
output "greeting" { value = terraform_data.greeting.output }
"""
# What a reader fills in or has on another machine; names in braces are of this page's stack and organisation.
PLACEHOLDERS = {
    "https://<ref>.supabase.co": "{url}",
    "https://your-project.example": "{url}",
    "https://api.runyard.example.com": "{url}",
    "http://127.0.0.1:54321": "{url}",
    "sb_publishable_…": "{publishable_key}",
    "sb_secret_…": "{secret_key}",
    "you@example.com": "{email}",
    "you@example.org": "{email}",
    "RUNYARD_PASSWORD=…": "RUNYARD_PASSWORD={password}",
    "WORKER_ID=…": "WORKER_ID={runner}",
    "WORKER_TOKEN=ryw_…": "WORKER_TOKEN={token}",
    "WORKER_TOKEN=…": "WORKER_TOKEN={token}",
    "runyard variables seal ": "echo swordfish | runyard variables seal ",
    "<user id>": "{user}",
    "<device id>": "{device}",
    "kill -9 <pid>": "kill -9 $RUNNER; wait $RUNNER || true",
    "https://git.example.com/": "file://{folder}/git/",
    ".venv/bin/": "",
    "acme": "{slug}",
}
# Pages that one reader reads in this order, since a runner takes a second to start; each other page has a reader of its own.
TOGETHER = (
    "docs/quick-start.md",
    "docs/self-hosted.md",
    "docs/first-module.md",
    "docs/dependencies.md",
    "docs/groups.md",
    "docs/bring-in-state.md",
    "docs/records.md",
)
# Modules that a page expects.
MODULES = {
    "docs/dependencies.md": ("apps/site", "net/vpc", "production/site", "staging/site"),
    "docs/access.md": ("platform/prod/vpc",),
    "docs/cloud-block.md": ("platform/vpc",),
    "docs/groups.md": ("payments/ledger",),
    "docs/identity.md": ("platform/vpc",),
    "docs/manifest.md": ("platform/vpc",),
    "docs/policies.md": ("platform/vpc",),
    "docs/runner/service-accounts.md": ("platform/vpc",),
    "docs/records.md": ("platform/cdn",),
    "docs/reference/modules.md": ("platform/vpc",),
    "docs/schedules.md": ("platform/vpc",),
    "docs/variables.md": ("platform/vpc",),
}
# Files in the reader's folder.
FILES = {
    "password.txt": "{password}\n",
    "site/main.tf": CODE,
    "ca.pem": "a certificate\n",
    "production.tfvars": 'size = "large"\n',
    "token.txt": "a-token-of-the-provider\n",
    "shared-runners.toml": (PROJECT / "deploy/shared-runners.example.toml").read_text(),
    "no-runners.toml": "",
}
# Repositories at git.example.com, each with the folders of its modules.
REPOSITORIES = {"infrastructure": ("vpc",), "infra/edge": ("network",), "team/infra": ("network/core",)}
# For each page, what its reader did before the first line that has a text.
BEFORE = {
    "docs/bring-in-state.md": {
        "import ./infra": "git clone -q {folder}/git/team/infra.git infra",
        "import infra.tar.gz": "tar --create --gzip --file infra.tar.gz infra",
    },
    "docs/cli.md": {"modules grant": "runyard modules create platform/network --from ./site"},
    # What runs cannot be cancelled, and a set that has ended neither: its jobs wait until both are over.
    "docs/groups.md": {"groups drift": "runyard runners drain laptop", "groups sets": "runyard runners resume laptop"},
    "docs/runner/service-accounts.md": {
        "--path platform \\": "runyard accounts remove deployer --yes",
        "update build-host-01": "runyard runners register build-host-01 --assign platform",
    },
    "docs/runner/shared.md": {"shared-runners apply": "trap 'runyard shared-runners apply no-runners.toml' EXIT"},
}
# How questions end, and what the reader types.
ANSWERS = {b"[y/N]:": b"y\n", b"[all]:": b"all\n"}
# The page that shows how to sign in and to create an organisation.
FIRST_SESSION = "docs/cli.md"
# A page is one script; a runner that it starts works until the page's end.
PRELUDE = f"""
unset BASH_ENV
set -Eeo pipefail
trap 'echo "${{BASH_SOURCE[0]}}:$LINENO: exit code $?: $BASH_COMMAND" >&2' ERR
make() {{ command make --silent --directory={PROJECT} PY={sys.executable} SETUP=true "$@"; }}
runyard-worker() {{
  [ "$1" = run ] || {{ command runyard-worker "$@"; return; }}
  kill -0 "${{RUNNER:-none}}" 2> kills || {{ command runyard-worker "$@" > runs 2>&1 & RUNNER=$!; }}
  until grep -q "doorbell is connected" runs; do kill -0 "$RUNNER" || {{ cat runs; return 1; }}; sleep 0.1; done
}}
"""


@contextmanager
def open_terminal() -> Iterator[tuple[int, int]]:
    """A terminal without echo, for the standard input of a shell."""
    ours, theirs = pty.openpty()
    mode = termios.tcgetattr(theirs)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


class Reader:
    """A new user with an organisation, a folder and a terminal, who types what a page shows."""

    def __init__(self, stack: RunningStack, pages: dict[str, list[Block]], folder: Path) -> None:
        """Sign up, and create what the pages expect."""
        self.stack, self.pages, self.folder = stack, pages, folder
        self.bench = Bench(stack, folder, find_tofu() or Path("/nowhere/tofu"))
        self.bench.create_account()
        self.values = self._values()
        if FIRST_SESSION not in pages:
            self._create_organization()
        for path, text in FILES.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(self.filled(text))
        for name, modules in REPOSITORIES.items():
            make_repository(folder / "git" / f"{name}.git", {f"{module}/main.tf": CODE for module in modules})

    def _values(self) -> dict[str, str]:
        stack, account = self.stack, self.bench.account
        me = self.bench.http.get(f"{stack.url}/auth/v1/user", headers=self._headers).json()
        body = {"factor_type": "totp", "friendly_name": "phone"}
        device = self.bench.http.post(f"{stack.url}/auth/v1/factors", json=body, headers=self._headers).json()
        return {
            **account, "url": stack.url, "publishable_key": stack.publishable_key, "secret_key": stack.secret_key,
            "user": me["id"], "device": device["id"], "folder": str(self.folder), "slug": f"acme-{uuid.uuid4().hex[:8]}",
        }  # fmt: skip

    def _create_organization(self) -> None:
        self.bench.create_organization(self.values["slug"])
        self.values["runner"], self.values["token"] = self.bench.register("laptop")
        source = {"url": self.filled("https://git.example.com/infrastructure.git"), "ref": "main", "subfolder": "vpc"}
        for path in (path for page in self.pages for path in MODULES.get(page, ())):
            group, _, module = path.rpartition("/")
            spec = {"source_kind": "git", "source": source, "engine": "tofu"}
            self.bench.rpc("create_module", p_org=self.bench.org, p_group_path=group, p_name=module, p_spec=spec)

    @property
    def _headers(self) -> dict[str, str]:
        return {"apikey": self.stack.publishable_key, "authorization": f"Bearer {self.bench.token}"}

    def filled(self, text: str) -> str:
        """A text of the page with this reader's values."""
        for placeholder, value in PLACEHOLDERS.items():
            text = text.replace(placeholder, value)
        return re.sub(r"\{(\w+)\}", lambda found: self.values.get(found[1], found[0]), text)

    def environment(self) -> dict[str, str]:
        """A shell with the programs on its PATH, signed in unless the page does that."""
        known = {**self.stack.environment, **self.stack.client_environment}
        if FIRST_SESSION not in self.pages:
            known |= {"RUNYARD_ACCESS_TOKEN": self.bench.token}
            known |= {"WORKER_ID": self.values["runner"], "WORKER_TOKEN": self.values["token"]}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        runner = self.bench.environment(("", ""), "docs", self.folder / "home")
        runner = {name: value for name, value in runner.items() if name.startswith("RUNYARD__")}
        own = {
            "PATH": path,
            "BASH_ENV": str(self.folder / "prelude"),
            "RUNYARD_CONFIG_HOME": str(self.folder / "config"),
        }
        return {**clean_environment(), **known, **runner, **own}

    def script(self, page: str) -> str:
        """A page with its blocks alone, each on its own lines, so that bash's line numbers are the page's."""
        numbered = dict(line for block in self.pages[page] for line in block.script())
        lines = [numbered.get(number, "") for number in range(1, max(numbered) + 1)]
        for text, command in BEFORE.get(page, {}).items():
            at = next(number for number, line in enumerate(lines) if text in line)
            lines[at] = f"{command}; {lines[at]}"
        return self.filled("\n".join(lines)) + "\n"

    def read(self) -> tuple[int, str]:
        """Type the pages into one bash; its exit code, and everything that was printed."""
        for page in self.pages:
            (self.folder / page).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / page).write_text(self.script(page))
        (self.folder / "prelude").write_text(PRELUDE)
        output = self.folder / "output"
        command = ["bash", "-c", "\n".join(f". ./{page}" for page in self.pages)]
        with open_terminal() as (ours, theirs), output.open("wb") as written:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment(), stdin=theirs, stdout=written,
                stderr=written, start_new_session=True,
            )  # fmt: skip
            answered: set[int] = set()
            try:
                # A page that never ends fails by the exit code of its killed shell, with what it printed.
                with suppress(TimeoutError):
                    wait_until(lambda: is_over(process, output, ours, answered), timeout_seconds=500)
            finally:
                end(process)
                self.bench.close()
        return process.returncode, output.read_text()


def is_over(process: "subprocess.Popen[bytes]", output: Path, keyboard: int, answered: set[int]) -> bool:
    """Whether the page's script has ended; until then, answer each question once."""
    printed = output.read_bytes().rstrip()
    answer = next((answer for question, answer in ANSWERS.items() if printed.endswith(question)), None)
    if answer and len(printed) not in answered:
        answered.add(len(printed))
        os.write(keyboard, answer)
    return process.poll() is not None


def end(process: "subprocess.Popen[bytes]") -> None:
    """End what the script left running, such as its runner: all of it is in one session."""
    family = []
    for one in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            family += [one, *one.children(recursive=True)] if os.getsid(one.pid) == process.pid else []
    for each in family:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait(60)
