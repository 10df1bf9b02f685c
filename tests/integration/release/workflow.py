"""Runs a workflow's own commands on this machine: files go from job to job as its steps say.

`docker` and `gh` are stand-ins that record their arguments. An action that is not known here is an error, so that
a workflow cannot grow a step that nobody has seen run.
"""

import fnmatch
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

OWNER, REPOSITORY = "Example-Owner", "Example-Owner/runyard"
TESTS = ".ci/run"
DOCKER = """#!/bin/sh
[ "$1" = login ] && cat > /dev/null
echo "docker $*" >> "$STAND_INS/calls"
[ "$1 $2 $3" = "buildx imagetools inspect" ] && echo sha256:{digest}
exit 0
"""
GH = """#!{python}
import os, pathlib, shutil, sys
kind, tag, rest = sys.argv[2], sys.argv[3], sys.argv[4:]
with open(os.environ["STAND_INS"] + "/calls", "a") as calls:
    print("gh", *sys.argv[1:], file=calls)
page = pathlib.Path(os.environ["PAGE"], os.environ["GITHUB_REPOSITORY"], "releases", "download", tag)
if kind == "view":
    sys.exit(not page.exists())
notes = rest[rest.index("--notes-file") + 1]
page.mkdir(parents=True)
shutil.copy(notes, page.parent / (tag + ".notes"))
for name in rest:
    if os.path.isfile(name) and name != notes:
        shutil.copy(name, page)
"""


@dataclass
class Rehearsal:
    """One run of a workflow for a tag."""

    tree: Path
    """The tree of the tag."""
    folder: Path
    tag: str
    page: Path
    """The files of the release's page, as a web server would have them."""
    origin: str
    values: dict[str, str]
    """The values of `${{ … }}`."""
    is_building: bool = True
    """Whether `make` is really run; else its files are made up."""
    artifacts: dict[str, Path] = field(default_factory=dict)
    signed: set[str] = field(default_factory=set)
    """Checksums and names of what was handed to sigstore."""

    def __post_init__(self) -> None:
        self.stand_ins = self.folder / "stand-ins"
        self.stand_ins.mkdir()
        _program(self.stand_ins / "docker", DOCKER.format(digest="ab" * 32))
        _program(self.stand_ins / "gh", GH.replace("{python}", sys.executable))
        (self.stand_ins / "calls").touch()

    @property
    def calls(self) -> list[str]:
        """The calls that the stand-ins received."""
        return (self.stand_ins / "calls").read_text().splitlines()

    def run(self, file: Path) -> list[str]:
        """Run every job after those that it needs, each once: on this machine's platform; returns their order."""
        jobs = jobs_of(file)
        done: list[str] = []
        while len(done) < len(jobs):
            ready = [name for name in jobs if name not in done and _needs(jobs[name]) <= set(done)]
            assert ready, f"these jobs wait for each other: {set(jobs) - set(done)}"
            self.run_job(ready[0], jobs[ready[0]])
            done.append(ready[0])
        return done

    def run_job(self, name: str, job: dict[str, Any]) -> None:
        """Run a job's steps in a folder of its own, from a clean checkout."""
        here = self.folder / name
        here.mkdir()
        matrix = job.get("strategy", {}).get("matrix", {})
        self.values |= {f"matrix.{key}": str(values[0]) for key, values in matrix.items()}
        for index, step in enumerate(job["steps"]):
            if "run" in step:
                self._run(step, job["steps"][index + 1 :], here)
            else:
                inputs = {key: self._fill(str(value)) for key, value in step.get("with", {}).items()}
                ACTIONS[step["uses"].partition("@")[0]](self, here, inputs)

    def _run(self, step: dict[str, Any], later: list[dict[str, Any]], here: Path) -> None:
        command = self._fill(step["run"])
        if command == TESTS:
            # This test is one of them.
            return
        if command.startswith("make ") and not self.is_building:
            _make_up(later, here)
            return
        output = here / ".output"
        output.touch()
        given = {key: self._fill(value) for key, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "-e", "-c", command], cwd=here, env=self._environment(output) | given,
            capture_output=True, text=True, check=False, timeout=1500,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        for key, value in re.findall(r"^(\w+)=(.*)$", output.read_text(), re.MULTILINE):
            self.values[f"steps.{step.get('id')}.outputs.{key}"] = value

    def _environment(self, output: Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RUNYARD_", "GITHUB_", "CI"))}
        return kept | {
            "PATH": f"{self.stand_ins}:{os.environ['PATH']}",
            # The packages are those of this environment: what is checked is the release, not pip.
            "MAKEFLAGS": f"PY={sys.executable} SETUP=true",
            "STAND_INS": str(self.stand_ins),
            "PAGE": str(self.page),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_REF_NAME": self.tag,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_REPOSITORY_OWNER": OWNER,
            "GITHUB_SERVER_URL": self.origin,
            "GITHUB_ACTOR": "somebody",
        }

    def _fill(self, text: str) -> str:
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: self.values[found.group(1)], text)

    def checkout(self, here: Path, inputs: dict[str, str]) -> None:
        shutil.copytree(self.tree, here, dirs_exist_ok=True)

    def have_python(self, here: Path, inputs: dict[str, str]) -> None:
        assert inputs["python-version"], "it is this environment's"

    def sign(self, here: Path, inputs: dict[str, str]) -> None:
        if "subject-digest" in inputs:
            self.signed |= {f"{inputs['subject-name']}@{inputs['subject-digest']}"}
        else:
            self.signed |= {digest(file) for file in _found(here, inputs["subject-path"])}

    def upload(self, here: Path, inputs: dict[str, str]) -> None:
        assert inputs["name"] not in self.artifacts, "two jobs upload under one name"
        target = self.artifacts[inputs["name"]] = self.folder / "artifacts" / inputs["name"]
        target.mkdir(parents=True)
        for file in _found(here, inputs["path"]):
            shutil.copy2(file, target)

    def download(self, here: Path, inputs: dict[str, str]) -> None:
        pattern = inputs.get("pattern") or inputs["name"]
        found = [folder for name, folder in self.artifacts.items() if fnmatch.fnmatch(name, pattern)]
        assert found, f"nothing was uploaded as {pattern}"
        for folder in found:
            shutil.copytree(folder, here / inputs["path"], dirs_exist_ok=True)


ACTIONS = {
    "actions/checkout": Rehearsal.checkout,
    "actions/setup-python": Rehearsal.have_python,
    "actions/attest-build-provenance": Rehearsal.sign,
    "actions/upload-artifact": Rehearsal.upload,
    "actions/download-artifact": Rehearsal.download,
}


def jobs_of(file: Path) -> dict[str, dict[str, Any]]:
    """A workflow's jobs by name."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text())["jobs"]
    return found


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _needs(job: dict[str, Any]) -> set[str]:
    named = job.get("needs", [])
    return {named} if isinstance(named, str) else set(named)


def _found(here: Path, patterns: str) -> list[Path]:
    found = [file for pattern in patterns.split() for file in sorted(here.glob(pattern))]
    assert found, f"no file for {patterns}"
    return found


def _make_up(later: list[dict[str, Any]], here: Path) -> None:
    """Make a file for each pattern that a later step of the job takes up."""
    for step in later:
        for pattern in step.get("with", {}).get("path", "").split():
            file = here / pattern.replace("*", "made-up")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"made up for {pattern}\n")


def _program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
