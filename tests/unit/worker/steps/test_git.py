"""Fetching from git: hostile repositories and variables run nothing, and credentials reach their own host alone."""

import asyncio
import shutil
import socketserver
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.strange_addresses import STRANGE
from tests.unit.worker.fakes import Network
from tests.unit.worker.steps.git_places import Listener, git, listening, make_repository
from tests.unit.worker.workspaces import log_of, open_workspace
from worker.attempt.workspace import Workspace
from worker.errors import JobFailed
from worker.settings.model import GitSettings
from worker.steps.git import bounded, fetch_git

pytestmark = pytest.mark.anyio
SECRET = "NETRC-SECRET-77"
# Where a runner finds a password for a repository; `app` is the short-lived token of a GitHub App.
PLACES = ("netrc", "store", "app")


@dataclass
class Fetching:
    """A runner's machine, and a module that is fetched there."""

    base: Path
    environ: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    is_isolated: bool = False
    is_app: bool = False
    """Whether the project has a GitHub App that gives a token for the repository."""
    space: Workspace | None = None
    """The last one."""

    @property
    def ran(self) -> Path:
        """The file that a hostile command creates, in a place where an isolated job can write as well."""
        return self.base / "work/.temp/job-1-1/tmp/ran"

    @property
    def command(self) -> str:
        return f"date >> {self.ran}"

    @property
    def home(self) -> Path:
        (self.base / "runner-home").mkdir(exist_ok=True)
        return self.base / "runner-home"

    def workspace(self) -> Workspace:
        shutil.rmtree(self.base / "work", ignore_errors=True)
        self.space = open_workspace(
            self.base, network=Network(self.answer), environ=self.environ, is_isolated=self.is_isolated,
            module={"env": self.variables},
        )  # fmt: skip
        return self.space

    def answer(self, name: str, _: Any) -> Any:
        """Answer as the project does: which app the repository has, and its token."""
        return {"username": "bot", "token": SECRET} if name == "token" else "an app" if self.is_app else None

    def has(self, path: str) -> bool:
        """Whether the last fetch has left something of this name."""
        return self.space is not None and (self.space.source / path).is_file()

    async def fetch(self, url: str | Path, ref: str = "main") -> Workspace:
        space = self.workspace()
        await fetch_git(space, {"url": str(url), "ref": ref})
        return space

    async def refused(self, url: str | Path, ref: str = "main") -> str:
        space = self.workspace()
        with pytest.raises(JobFailed) as caught:
            await fetch_git(space, {"url": str(url), "ref": ref})
        return f"{caught.value.code}: {caught.value.message}\n{log_of(space)}"


@pytest.fixture(params=[False, True], ids=["bare", "isolated"])
def fetching(request: pytest.FixtureRequest, tmp_path: Path) -> Fetching:
    made = Fetching(tmp_path, is_isolated=request.param)
    found = made.workspace().context.isolation
    if made.is_isolated and (found is None or found.way is None):
        pytest.skip(f"jobs cannot be isolated here: {found.why if found else ''}")
    return made


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    """A server for repositories without a password."""
    with listening(tmp_path) as made:
        yield made


# ---------------------------------------------------------------------------------------------- commands


@pytest.mark.parametrize(
    "settings",
    [
        '[submodule "sub"]\n\tupdate = "!{command}"\n',
        '[core]\n\tfsmonitor = "{command} #"\n',
        "[core]\n\thooksPath = /proc/self/cwd/hooks\n",
        '[filter "x"]\n\tsmudge = "{command}; cat"\n\trequired = true\n',
        '[alias]\n\tfetch = "!{command}"\n[credential]\n\thelper = "!{command} #"\n',
    ],
    ids=["submodule update", "fsmonitor", "hooks", "filter", "credential helper"],
)  # fmt: skip
async def test_configuration_that_a_repository_brings_along_is_not_read(fetching: Fetching, settings: str) -> None:
    sub = make_repository(fetching.base / "sub", {"inner.tf": "# inner\n"})
    files = {
        "git/config": settings.replace("{command}", fetching.command),
        "hooks/post-checkout": f"#!/bin/sh\n{fetching.command}\n",
        ".gitattributes": "*.tf filter=x\n",
        "main.tf": "# main\n",
    }
    source = make_repository(fetching.base / "source", files, sub=str(sub))
    fetching.variables = {"XDG_CONFIG_HOME": "/proc/self/cwd"}
    space = await fetching.fetch(source)
    assert (space.source / "sub/inner.tf").read_text() == "# inner\n"
    assert not fetching.ran.exists()


async def test_a_submodule_is_checked_out_without_its_configured_command(fetching: Fetching) -> None:
    sub = make_repository(fetching.base / "sub", {"inner.tf": "# inner\n"})
    source = make_repository(fetching.base / "source", {"main.tf": ""}, sub=str(sub))
    named = fetching.base / "gitconfig"
    named.write_text(f'[submodule "sub"]\n\tupdate = "!{fetching.command}"\n')
    fetching.environ = {"GIT_CONFIG_GLOBAL": str(named)}
    space = await fetching.fetch(source)
    assert (space.source / "sub/inner.tf").exists()
    assert not fetching.ran.exists()


async def test_the_configuration_that_the_operator_names_is_used_but_runs_no_filter(fetching: Fetching) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    files = {".gitattributes": "*.tf filter=lfs\n*.bin filter=lfs\n", "main.tf": "# main\n", "big.bin": pointer}
    sub = make_repository(fetching.base / "sub", files)
    real = make_repository(fetching.base / "real", files, sub=str(sub))
    named = fetching.base / "gitconfig"
    words = f'clean = "{fetching.command}"\n\tsmudge = "{fetching.command}"\n\tprocess = "{fetching.command}"'
    named.write_text(
        f'[url "{real}"]\n\tinsteadOf = {fetching.base}/elsewhere\n[filter "lfs"]\n\trequired = true\n\t{words}\n'
    )
    fetching.environ = {"GIT_CONFIG_GLOBAL": str(named)}
    space = await fetching.fetch(fetching.base / "elsewhere")
    assert [(space.source / path).read_text() for path in ("big.bin", "sub/big.bin")] == [pointer, pointer]
    assert not fetching.ran.exists()


async def test_the_runners_own_configuration_is_not_used_unless_it_is_named(fetching: Fetching) -> None:
    source = make_repository(fetching.base / "source", {".gitattributes": "* filter=x\n", "main.tf": "# main\n"})
    (fetching.home / ".gitconfig").write_text(f'[filter "x"]\n\tsmudge = "{fetching.command}; cat"\n')
    await fetching.fetch(source)
    assert not fetching.ran.exists()


async def test_a_tree_with_a_git_folder_or_a_link_in_its_place_is_refused(fetching: Fetching) -> None:
    source = make_repository(fetching.base / "source", {"main.tf": ""})
    target = git(source, "hash-object", "-w", "--stdin", input="/etc")
    entry = b"120000 .git\0" + bytes.fromhex(target)
    tree = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"], cwd=source, input=entry, check=True,
        capture_output=True,
    )  # fmt: skip
    git(source, "update-ref", "refs/heads/main", git(source, "commit-tree", "-m", "link", tree.stdout.decode().strip()))
    told = await fetching.refused(source)
    assert "invalid path" in told
    assert fetching.has(".git/HEAD")


async def test_a_local_source_whose_git_folder_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    secret = make_repository(tmp_path / "secret", {"main.tf": "# secret\n"})
    named = tmp_path / "named"
    (named / "source").mkdir(parents=True)
    (named / "source/.git").symlink_to(secret / ".git")
    paths = {"RUNYARD__ENGINE__ISOLATION__READONLYPATHS": str(named), "RUNYARD__ENGINE__ISOLATION__MODE": "auto"}
    assert "may not read" in await Fetching(tmp_path, environ=paths, is_isolated=True).refused(named / "source")


# ---------------------------------------------------------------------------------------------- the network


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy", "ALL_PROXY", "https_proxy"])
async def test_a_proxy_of_the_module_gets_neither_requests_nor_credentials(
    fetching: Fetching, listener: Listener, variable: str
) -> None:
    (fetching.home / ".netrc").write_text(f"machine git.victim.example login bot password {SECRET}\n")
    fetching.variables = {variable: listener.url}
    for scheme in ("http", "https"):
        await fetching.refused(f"{scheme}://git.victim.example/x.git")
    assert listener.requests == []


@pytest.mark.parametrize("url", STRANGE)
async def test_an_address_with_several_readings_asks_for_no_credential(fetching: Fetching, url: str) -> None:
    """The operator's helper would hand out the password of any requested host."""
    asked = fetching.base / "asked"
    (fetching.base / "gitconfig").write_text(
        f'[credential]\n\thelper = "!f() {{ cat >> {asked}; echo username=bot; echo password={SECRET}; }}; f"\n'
    )
    fetching.environ["GIT_CONFIG_GLOBAL"] = str(fetching.base / "gitconfig")
    (fetching.home / ".netrc").write_text(f"machine git.victim.example login bot password {SECRET}\n")
    assert "bad_source" in await fetching.refused(url)
    assert not asked.exists()


@pytest.mark.parametrize("url", ["https://[::1]:1/x%20y/z.git", "https://a_b.c~d+e-f@127.0.0.1:1/x%20y/z@1?.git"])
async def test_usual_addresses_ask_for_the_credential_of_their_host(fetching: Fetching, url: str) -> None:
    asked = fetching.base / "asked"
    (fetching.base / "gitconfig").write_text(f'[credential]\n\thelper = "!f() {{ cat >> {asked}; }}; f"\n')
    fetching.environ["GIT_CONFIG_GLOBAL"] = str(fetching.base / "gitconfig")
    assert "fetch_failed" in await fetching.refused(url)
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    assert f"host={host}\n" in asked.read_text()


@pytest.mark.parametrize("place", PLACES)
async def test_plain_http_gets_no_credentials(fetching: Fetching, place: str) -> None:
    make_repository(fetching.base / "source", {"main.tf": ""})
    with listening(fetching.base, password=SECRET) as server:
        keep_credential(fetching, place, server)
        told = await fetching.refused(f"{server.url}/source/.git")
    assert server.requests
    assert server.credentials == set()
    assert "fetch_failed" in told


@pytest.mark.parametrize("place", PLACES)
async def test_https_gets_the_credentials_of_its_own_host_and_nobody_elses(fetching: Fetching, place: str) -> None:
    sub = make_repository(fetching.base / "files/sub", {"inner.tf": "# inner\n"})
    make_repository(fetching.base / "other/else", {"else.tf": "# else\n"})
    source = make_repository(fetching.base / "files/source", {"main.tf": "# main\n"})
    with (
        listening(fetching.base / "files", password=SECRET, certificates=fetching.base / "one") as server,
        listening(fetching.base / "other", password="of another host", certificates=fetching.base / "two") as other,
    ):
        keep_credential(fetching, place, server)
        fetching.environ["GIT_SSL_CAINFO"] = trusted(fetching, server, other)
        space = await fetching.fetch(f"{server.url}/source/.git")
        assert (space.source / "main.tf").exists()
        assert server.credentials == {f"bot:{SECRET}"}
        assert SECRET not in log_of(space)
        add = [
            ("inner", f"{server.url}/sub/.git", sub),
            ("else", f"{other.url}/else/.git", fetching.base / "other/else"),
        ]
        for name, url, repository in add:
            git(source, "config", "-f", ".gitmodules", f"submodule.{name}.path", name)
            git(source, "config", "-f", ".gitmodules", f"submodule.{name}.url", url)
            tip = git(repository, "rev-parse", "HEAD")
            git(source, "update-index", "--add", "--cacheinfo", f"160000,{tip},{name}")
        git(source, "add", ".gitmodules")
        git(source, "commit", "-q", "-m", "with submodules")
        git(source, "update-server-info")
        await fetching.refused(f"{server.url}/source/.git")
        assert "/sub/.git/info/refs?service=git-upload-pack" in [path for path, seen in server.requests if seen]
    assert other.requests
    assert other.credentials == set()


async def test_alternates_of_a_repository_lead_nowhere(fetching: Fetching) -> None:
    source = make_repository(fetching.base / "source", {"main.tf": ""})
    with listening(fetching.base, is_smart=False) as server, listening(fetching.base, is_smart=False) as other:
        for name in ("http-alternates", "alternates"):
            (source / ".git/objects/info" / name).write_text(f"{other.url}/hidden/.git/objects\n")
        # Without its own objects, git searches in the places that the repository names.
        tip = git(source, "rev-parse", "HEAD")
        (source / ".git/objects" / tip[:2] / tip[2:]).unlink()
        await fetching.refused(f"{server.url}/source/.git", tip)
        assert "/source/.git/objects/info/http-alternates" in [path for path, _ in server.requests]
        assert other.requests == []


@pytest.mark.parametrize("address", ["file://{hidden}", "{hidden}", "ext::sh -c '{command}'"])
async def test_a_submodule_of_a_remote_source_reads_no_repository_of_the_machine(
    fetching: Fetching, listener: Listener, address: str
) -> None:
    hidden = make_repository(fetching.base / "hidden", {"secret.tf": "# secret\n"})
    source = make_repository(fetching.base / "source", {"main.tf": ""})
    url = address.format(hidden=hidden, command=fetching.command)
    git(source, "config", "-f", ".gitmodules", "submodule.sub.path", "sub")
    git(source, "config", "-f", ".gitmodules", "submodule.sub.url", url)
    git(source, "update-index", "--add", "--cacheinfo", f"160000,{git(hidden, 'rev-parse', 'HEAD')},sub")
    git(source, "add", ".gitmodules")
    git(source, "commit", "-q", "-m", "with a submodule")
    git(source, "update-server-info")
    told = await fetching.refused(f"{listener.url}/source/.git")
    assert "not allowed" in told
    assert not fetching.ran.exists()
    assert fetching.has("main.tf")
    assert not fetching.has("sub/secret.tf")


async def test_ssh_is_used_for_the_host_of_the_source_alone(tmp_path: Path) -> None:
    fetching = Fetching(tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\nexit 1\n')
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    fetching.environ = {"PATH": f"{programs}:/usr/bin:/bin"}
    for url in ("git@git.example.com:team/x.git", "ssh://me@Git.example.com:2222/team/x.git"):
        await fetching.refused(url)
    called = (tmp_path / "called").read_text().splitlines()
    hosts = [line.split(" git-upload-pack")[0].split()[-1] for line in called]
    assert hosts == ["git@git.example.com", "me@Git.example.com"]
    (tmp_path / "called").unlink()
    for name, url in (("a", "ssh://git@other.example/x.git"), ("b", "git@other.example:git.example.com")):
        make_repository(tmp_path / name, {"main.tf": ""}, sub=url)
        assert "ssh is used for the host of the source alone" in await fetching.refused(tmp_path / name)
    assert not (tmp_path / "called").exists()


async def test_a_password_in_a_plain_http_address_is_refused(tmp_path: Path, listener: Listener) -> None:
    url = listener.url.replace("http://", f"http://bot:{SECRET}@")
    told = await Fetching(tmp_path).refused(f"{url}/x.git")
    assert "https://" in told or "plain http" in told
    assert listener.requests == []


# ---------------------------------------------------------------------------------------------- limits


async def test_a_repository_that_is_too_large_is_refused_by_name(fetching: Fetching) -> None:
    repository = make_repository(fetching.base / "repository", {"main.tf": "", "large.bin": "x" * 3_000_000})
    fetching.environ["RUNYARD__GIT__MOSTMEGABYTES"] = "1"
    assert (await fetching.refused(repository)).startswith(
        "too_large: The repository takes more than 1 MiB on the runner's disk."
    )
    fetching.environ["RUNYARD__GIT__MOSTMEGABYTES"] = "4"
    await fetching.fetch(repository)
    assert fetching.has("large.bin")


async def test_many_empty_files_are_large_too(fetching: Fetching) -> None:
    repository = make_repository(fetching.base / "repository", {f"{number}.tf": "" for number in range(600)})
    fetching.environ["RUNYARD__GIT__MOSTMEGABYTES"] = "2"
    assert (await fetching.refused(repository)).startswith("too_large: ")


async def test_a_fetch_ends_while_the_repository_grows(tmp_path: Path) -> None:
    async def fetch() -> None:
        async with bounded(tmp_path, GitSettings(most_megabytes=1)):
            (tmp_path / "pack").write_bytes(bytes(2_000_000))
            await asyncio.Event().wait()

    with pytest.raises(JobFailed, match="takes more than 1 MiB"):
        await fetch()


async def test_a_host_that_never_answers_ends_the_fetch(tmp_path: Path) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as silent:
        silent.socket.listen()
        fetching = Fetching(tmp_path, {"RUNYARD__GIT__TIMEOUTSECONDS": "0.5"})
        url = f"http://127.0.0.1:{silent.server_address[1]}/infra.git"
        assert (await fetching.refused(url)).startswith("fetch_failed: The repository was not read within 0.5 s.")


def keep_credential(fetching: Fetching, place: str, server: Listener) -> None:
    """Give the runner's user a password, where git or curl would look for it."""
    if place == "netrc":
        (fetching.home / ".netrc").write_text(f"machine 127.0.0.1 login bot password {SECRET}\n")
    elif place == "app":
        fetching.is_app = True
    else:
        scheme, _, host = server.url.partition("://")
        (fetching.home / ".git-credentials").write_text(f"{scheme}://bot:{SECRET}@{host}\n")
        (fetching.home / ".gitconfig").write_text("[credential]\n\thelper = store\n")


def trusted(fetching: Fetching, *servers: Any) -> str:
    """A file with the servers' certificates, where an isolated git may read it."""
    file = fetching.base / "authorities.pem"
    file.write_text("".join(server.certificate.read_text() for server in servers))
    return str(file)
