"""Check and build a release: before a maintainer tags a version, and as the release's first job; everything that needs no GitHub.

Makes in `--dist` what a release offers beside the images: wheels, one-file binary, chart, SBOM, checksums and notes.
"""

import argparse
import email
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from packaging.utils import parse_wheel_filename
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import checksums, frozen, publish_release, versions, wheels, worker_binary

ROOT = Path(__file__).resolve().parent.parent
CHARTS = {
    "runyard-worker": ("worker.id=x", "worker.url=https://x.example", "worker.token=ryw_x"),
    "runyard-server": ("supabase.url=https://x.example", "supabase.publishableKey=sb_publishable_x"),
}


class Wrong(Exception):
    """The release cannot be made like this; the message names what to change."""


class Missing(Exception):
    """Cannot be checked on this machine."""


@dataclass(frozen=True)
class Release:
    """The version that is to be released, from where, and where its files go."""

    tag: str
    root: Path
    dist: Path
    is_plain: bool = False

    @property
    def version(self) -> str:
        """The tag without its v."""
        return self.tag.removeprefix("v")


def main(argv: list[str] | None = None) -> int:
    """Check everything, print each result, and exit with 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--tag", help="as v1.4.0; the runner's version if none is named")
    parser.add_argument("--root", type=Path, default=ROOT, help="the clone that is to be released")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where to put the files")
    parser.add_argument(
        "--plain", action="store_true", help="a binary that needs a Python: builds without fetching one"
    )
    parser.add_argument("--words", action="store_true", help="check what is written down alone, build nothing")
    given = parser.parse_args(argv)
    tag = given.tag or f"v{versions.current(given.root)}"
    release = Release(tag, given.root, given.dist, given.plain)
    # Nothing is built for a release whose words are not right.
    if not run(release, WORDS):
        return 1
    return 0 if given.words or run(release, FILES) else 1


def run(release: Release, checks: Mapping[str, Callable[[Release], str]]) -> bool:
    """Run checks one after the other; a wrong one does not keep the next from telling what it finds."""
    is_good = True
    for name, check in checks.items():
        try:
            print(f"✓ {name}: {check(release)}", flush=True)
        except Missing as error:
            is_needed = bool(os.environ.get("CI"))
            is_good = is_good and not is_needed
            print(f"{'✗' if is_needed else '–'} {name}: not checked, {error}", flush=True)
        except (Wrong, ValueError, OSError, subprocess.SubprocessError) as error:
            is_good = False
            print(f"✗ {name}: {error}", flush=True)
    return is_good


def check_version(release: Release) -> str:
    """All places say the tag's version."""
    others = [f"{place} says {found}" for place, found in versions.read(release.root) if found != release.version]
    if others:
        told = ", ".join(others)
        raise Wrong(f"the tag is {release.tag}, but {told}; `make version V={release.version}` sets all of them")
    return release.version


def check_changelog(release: Release) -> str:
    """The changelog has a section with something in it; it becomes the notes."""
    notes = publish_release.changelog_section(release.version, release.root / "CHANGELOG.md").strip()
    if not notes:
        raise Wrong(f"CHANGELOG.md's section for {release.version} is empty; it becomes the release's notes")
    release.dist.mkdir(parents=True, exist_ok=True)
    (release.dist / "NOTES.md").write_text(notes + "\n", encoding="utf-8")
    return f"{len(notes.splitlines())} lines of notes"


def check_migrations(release: Release) -> str:
    """Migrations that people have run are as they were."""
    if found := frozen.faults(release.root):
        raise Wrong(f"{'; '.join(found)}; restore the files and put the change into a new one")
    return f"{len(list((release.root / frozen.MIGRATIONS).glob('*.sql')))} files, frozen by the tag"


def check_wheels(release: Release) -> str:
    """Each wheel has the version, the programs, and nothing but its own folders."""
    made = [(build(release.dist), tops) for tops, build in WHEELS.items()]
    return ", ".join(f"{wheel.name} ({check_wheel(wheel, release.version, *tops)} files)" for wheel, tops in made)


def check_wheel(wheel: Path, version: str, *folders: str) -> int:
    """Look into one wheel and return how many files it has."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata_file = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(metadata_file).decode()
        programs = metadata_file.replace("METADATA", "entry_points.txt")
        scripts = archive.read(programs).decode() if programs in names else ""
    # 1.4.0-rc.1 is written 1.4.0rc1 there.
    if Version(email.message_from_string(metadata)["Version"]) != Version(version):
        raise Wrong(f"{wheel.name} does not carry the version {version}")
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    if tops != set(folders):
        raise Wrong(f"{wheel.name} has {', '.join(sorted(tops))}, not {', '.join(folders)} alone")
    if lost := [
        module for module in re.findall(r"= ([\w.]+):", scripts) if f"{module.replace('.', '/')}.py" not in names
    ]:
        raise Wrong(f"{wheel.name} has scripts that call {', '.join(lost)}, which it does not hold")
    return len(names)


def check_binary(release: Release) -> str:
    """The one file runs and says its version."""
    binary = worker_binary.build_binary(_wheel(release), release.dist, is_plain=release.is_plain)
    told = subprocess.run([str(binary), "version"], capture_output=True, text=True, check=True, timeout=120)
    if release.version not in told.stdout:
        raise Wrong(f"{binary.name} says {told.stdout.strip()!r}, not {release.version}")
    return f"{binary.name}, {binary.stat().st_size >> 20} MiB"


def check_chart(release: Release) -> str:
    """Helm accepts the charts and packs them."""
    if shutil.which("helm") is None:
        raise Missing("there is no helm")
    for name, needed in CHARTS.items():
        chart = str(release.root / "deploy" / "helm" / name)
        _call(["helm", "lint", chart, *(part for value in needed for part in ("--set", value))])
        _call(["helm", "package", chart, "--destination", str(release.dist)])
    return ", ".join(f"{name}-{release.version}.tgz" for name in CHARTS)


def check_sbom(release: Release) -> str:
    """Every package that the binary holds, with its version, in CycloneDX."""
    wheel = _wheel(release)
    pins = release.dist / "runner-requirements.txt"
    wanted = f"runyard-worker[{worker_binary.EXTRAS}] @ {wheel.resolve().as_uri()}\n"
    constraint = str(release.root / "requirements.txt")
    compile_ = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "-"]
    made = _call([*compile_, "--constraint", constraint], text=wanted)
    pins.write_text("\n".join(line for line in made.splitlines() if " @ " not in line) + "\n", encoding="utf-8")
    target = release.dist / f"runyard-worker-{release.version}.cdx.json"
    tool = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "requirements",
        str(pins),
        "--pyproject",
        str(release.root / "packaging" / "runyard-worker" / "pyproject.toml"),
    ]
    _call([*tool, "--output-reproducible", "--of", "JSON", "-o", str(target)])
    pins.unlink()
    found = json.loads(target.read_text(encoding="utf-8")).get("components", [])
    if not found:
        raise Wrong("the SBOM names no package")
    return f"{target.name}, {len(found)} packages"


def check_checksums(release: Release) -> str:
    """Everything that was made has its checksum beside it."""
    return f"{len(checksums.write(release.dist).read_text(encoding='utf-8').splitlines())} files"


WHEELS = {
    ("wire", "worker"): worker_binary.build_wheel,
    ("cli", "wire"): wheels.build_cli,
    ("cli", "stack", "wire", "worker"): wheels.build_runyard,
}
WORDS = {
    "version": check_version,
    "changelog": check_changelog,
    "migrations": check_migrations,
}
FILES = {
    "wheels": check_wheels,
    "binary": check_binary,
    "chart": check_chart,
    "sbom": check_sbom,
    "checksums": check_checksums,
}


def find_wheel(folder: Path, version: str) -> Path | None:
    """The runner's wheel of a version, whose name is written as wheels write it."""
    found = sorted(folder.glob("runyard_worker-*.whl"))
    return next((wheel for wheel in found if parse_wheel_filename(wheel.name)[1] == Version(version)), None)


def _wheel(release: Release) -> Path:
    found = find_wheel(release.dist, release.version)
    if found is None:
        raise Missing("there is no wheel")
    return found


def _call(command: list[str], text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
