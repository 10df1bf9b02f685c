"""OpenTofu or Terraform itself in a folder whose code has `cloud {}`, as on somebody's laptop."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.integration.worker_bench import Bench
from tests.support.waiting import wait_until
from wire.cloud_block import cloud_block, host_block
from wire.tokens import make_personal_token

HOST = "127.0.0.1"


def personal_token(bench: Bench, role: str | None = None, path: str = "") -> str:
    made = make_personal_token()
    limits = {"p_role": role, "p_path": path}
    bench.rpc("create_personal_token", p_name="tofu", p_token_hash=made.hash, p_hint=made.hint, **limits)
    return made.text


@dataclass
class Running:
    """A command that waits for somebody."""

    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def says(self, words: str) -> str:
        """Wait until it prints something."""

        def found() -> bool:
            return words in " ".join(self.output.split()) or self.process.poll() is not None

        wait_until(found, timeout_seconds=300, every_seconds=0.2)
        assert words in " ".join(self.output.split()), self.output
        return self.output

    def types(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def ends(self) -> int:
        return self.process.wait(300)


@dataclass
class CloudTerminal:
    """A folder, a program and a token."""

    folder: Path
    program: Path
    url: str
    token: str

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ".terraformrc").write_text(host_block(self.url))

    def writes(self, organization: str, workspaces: str, code: str) -> None:
        block = cloud_block(self.url, organization, "shown/here").replace('name = "shown.here"', workspaces)
        (self.folder / "main.tf").write_text(block + code)

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "RUNYARD_"))}
        token = {"TF_TOKEN_127_0_0_1": self.token} if self.token else {}
        return {**own, **token, "HOME": str(self.folder), "BROWSER": "true", "CHECKPOINT_DISABLE": "1"}

    def start(self, *arguments: str) -> Running:
        log = self.folder / f"{arguments[0]}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(self.program), *arguments], cwd=self.folder, stdin=subprocess.PIPE, stdout=output,
                stderr=subprocess.STDOUT, env=self.environment,
            )  # fmt: skip
        return Running(process, log)

    def run(self, *arguments: str, typed: str = "", code: int = 0) -> str:
        """Run a command to its end, and return what it printed."""
        done = subprocess.run(
            [str(self.program), *arguments], cwd=self.folder, input=typed, capture_output=True, text=True,
            timeout=400, env=self.environment, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr
