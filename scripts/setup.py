"""Make or update .venv, and for `test` the browser, Redis and the engines; quick when nothing changed.

Uses the standard library only: it runs before anything is installed.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PIP = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input"]
UV = "uv==0.13.7"
REQUIREMENTS = {"run": "requirements.txt", "lint": "requirements-dev.txt", "test": "requirements-dev.txt"}
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ENGINES = (("tofu", "OpenTofu"), ("opa", "OPA"))
MISSING = 3


def main() -> None:
    """Bring .venv to what `run`, `lint` or `test` needs."""
    mode = sys.argv[1] if len(sys.argv) > 1 else "run"
    if mode not in REQUIREMENTS:
        fail(f"scripts/setup knows {', '.join(REQUIREMENTS)}, not {mode}.")
    check_platform()
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current(mode):
            make_venv()
            install(mode)
    if mode == "test":
        prepare_browser()
        prepare_redis()
        for name, title in ENGINES:
            prepare_engine(name, title)


def check_platform() -> None:
    """Report at once what this system cannot do, rather than after minutes of installing."""
    if sys.platform == "darwin":
        step("macOS: good for trying out; docs/platforms.md lists what differs from Linux")
    elif sys.platform != "linux":
        fail(
            f"Runyard does not run on {sys.platform}.",
            "On Windows use WSL 2; docs/platforms.md lists what is supported.",
        )
    elif is_musl():
        step(
            "this Linux has no glibc: the embedded stack's Deno has no wheel here; docs/platforms.md lists what is supported"
        )


def is_musl() -> bool:
    """Whether this Python was built for musl, as Alpine's is."""
    return "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")


def is_current(mode: str) -> bool:
    """Whether .venv already holds exactly these requirements for this Python."""
    stamp = VENV / f".stamp-{mode}"
    return PYTHON.exists() and stamp.exists() and stamp.read_text() == fingerprint(mode)


def fingerprint(mode: str) -> str:
    """Changes when the requirements, this script, the Python or the folder's place change."""
    digest = hashlib.sha256(f"{sys.version}{ROOT}".encode())
    for name in (REQUIREMENTS[mode], "pyproject.toml", "scripts/setup.py"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def make_venv() -> None:
    """Create .venv, or again when its Python has gone or the folder was moved."""
    has_pip = PYTHON.exists() and (succeeds([*PIP, "--version"]) or succeeds([str(PYTHON), "-m", "ensurepip"]))
    if has_pip and is_in_place():
        return
    step("Creating .venv")
    shutil.rmtree(VENV, ignore_errors=True)
    result = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        name = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        fail(
            f"Python's venv module does not work here:\n{(result.stdout + result.stderr).strip()}",
            f"Debian, Ubuntu: sudo apt-get install python3-venv (or {name}).",
        )


def is_in_place() -> bool:
    """Whether .venv was made for this folder: its programs carry the path they were made at."""
    command = [str(PYTHON), "-c", "import sys; print(sys.prefix)"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    activate = VENV / "bin" / "activate"
    return result.stdout.strip() == str(VENV) and activate.exists() and str(VENV) in activate.read_text()


def install(mode: str) -> None:
    """Install the pinned packages, with uv where it can be had and pip where not."""
    step(f"Installing the packages of {REQUIREMENTS[mode]} (a minute the first time)")
    began = time.monotonic()
    has_uv = succeeds([*PIP, "install", "--quiet", UV]) and succeeds([str(PYTHON), "-m", "uv", "--version"])
    installer = [str(PYTHON), "-m", "uv", "pip", "install", "--python", str(PYTHON)] if has_uv else [*PIP, "install"]
    run([*installer, "-r", REQUIREMENTS[mode]], environment=uv_environment())
    run([*installer, "--quiet", "--no-deps", "--editable", "."], environment=uv_environment())
    for name in REQUIREMENTS:
        (VENV / f".stamp-{name}").unlink(missing_ok=True)
    for name in ("run",) if mode == "run" else REQUIREMENTS:
        (VENV / f".stamp-{name}").write_text(fingerprint(name))
    step(f"Installed in {time.monotonic() - began:.0f} s")


def uv_environment() -> dict[str, str]:
    """Hand pip's own settings on to uv, which does not read them: index, extra index, links, certificate."""
    environment = dict(os.environ)
    listing = subprocess.run([str(PYTHON), "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    pairs = (line.partition("=") for line in listing.stdout.splitlines())
    found = {name.rpartition(".")[2]: value.strip().strip("'\"") for name, _, value in pairs}
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "find-links": "UV_FIND_LINKS",
        "cert": "SSL_CERT_FILE",
    }
    for setting, variable in names.items():
        if found.get(setting):
            environment.setdefault(variable, " ".join(found[setting].replace("\\n", " ").split()))
    # The cache and the clone are often on different disks; copying is then what happens anyway.
    environment.setdefault("UV_LINK_MODE", "copy")
    return environment


def prepare_browser() -> None:
    """Install Chromium for the browser tests where that is possible without asking."""
    if find_browser():
        return
    # The one without a window does half of the work for a page; not every distribution has it.
    for package in ("chromium-headless-shell", "chromium"):
        if not find_browser():
            install_packages("Chromium for the browser tests", package, "fonts-liberation")
    if not find_browser():
        print(
            "\n*** There is no Chromium: the browser tests will be SKIPPED. ***\n"
            "    Debian, Ubuntu: sudo apt-get install chromium. Another one: RUNYARD_CHROMIUM=/path/to/chrome make test\n",
            file=sys.stderr,
        )


def prepare_redis() -> None:
    """Install Redis for the test of several dashboards, likewise; no wheel that is kept up to date brings a server."""
    if shutil.which("redis-server"):
        return
    install_packages("Redis for the test of several dashboards", "redis-server")
    if not shutil.which("redis-server"):
        print(
            "\n*** There is no redis-server: the tests of several dashboards will be SKIPPED. ***\n"
            "    Debian, Ubuntu: sudo apt-get install redis-server. Elsewhere: put a redis-server on PATH\n",
            file=sys.stderr,
        )


def install_packages(what: str, *packages: str) -> None:
    """Install Debian packages, if that needs no password."""
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    can_install = shutil.which("apt-get") and (not sudo or (shutil.which("sudo") and succeeds([*sudo, "true"])))
    if not can_install:
        return
    step(f"Installing {what} (a minute or two)")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = [*sudo, "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    subprocess.run([*apt, "update"], env=quiet, stdout=subprocess.DEVNULL, check=False)
    install = [*apt, "install", "-y", "--no-install-recommends", *packages]
    subprocess.run(install, env=quiet, stdout=subprocess.DEVNULL, check=False)


def find_browser() -> str | None:
    """The browser that the tests will use."""
    return os.environ.get("RUNYARD_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def prepare_engine(name: str, title: str) -> None:
    """Provide OpenTofu and OPA for the tests that run real ones; the first time they may have to be built."""
    command = [str(PYTHON), "-m", "cli", "engines", "ensure", name]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        print(f"\n*** {title} could not be provided: the tests that need it will be SKIPPED. ***\n", file=sys.stderr)


def run(command: list[str], environment: dict[str, str]) -> None:
    """Run a step in sight of the person; explain a failure."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    for line in process.stdout or ():
        if not line.startswith((" + ", " - ", " ~ ")):
            print(f"    {line}", end="", flush=True)
    code = process.wait()
    if code != 0:
        fail(
            f"This step failed with exit code {code}: {' '.join(command)}",
            "What it printed above says why. Without a network the packages cannot be fetched; "
            "behind a proxy set HTTPS_PROXY, with a mirror PIP_INDEX_URL.",
        )


def succeeds(command: list[str]) -> bool:
    """Whether a command runs at all and ends well."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def step(text: str) -> None:
    """Print the current step."""
    print(f"==> {text}", flush=True)


def fail(message: str, hint: str = "") -> None:
    """Stop with a sentence a person can act on."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    sys.exit(MISSING)


if __name__ == "__main__":
    main()
