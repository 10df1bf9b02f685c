"""The part of the machine that the children of one job see."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worker.children.sandbox.namespaces import DEVICES
from worker.settings.load import secret_places
from worker.settings.model import Settings

# As merged systems have them these are links into /usr, which stay links.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
# Of /etc what programs need to find hosts, users, libraries and authorities; no keys, no other services' settings.
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "gai.conf", "gitconfig",
    "group", "host.conf", "hostname", "hosts", "krb5.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.conf",
    "localtime", "mime.types", "nsswitch.conf", "os-release", "passwd", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs",
    "pki/tls/openssl.cnf", "protocols", "redhat-release", "resolv.conf", "services", "ssh/ssh_config", "ssh/ssh_config.d",
    "ssh/ssh_known_hosts", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "timezone",
)  # fmt: skip
# Variables that name a file which operators bind to the host for the engines: to pass the name is to mean the file.
_FILES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "KUBECONFIG",
    "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CA_BUNDLE", "GOOGLE_APPLICATION_CREDENTIALS",
    "PULUMI_CONFIG_PASSPHRASE_FILE", "ARM_CLIENT_CERTIFICATE_PATH", "ARM_OIDC_TOKEN_FILE_PATH", "OCI_CONFIG_FILE",
)  # fmt: skip
# These files are replaced while they are used, so the job sees their folder, which contains nothing else.
_ROTATING = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_FEDERATED_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
# Git itself needs this to fetch a module's source, beside the credential that it receives; the module's own code does not see it.
_GIT = (".ssh",)

# The kind (`ro`, `rw`, `empty`, `link`), the source and the target.
Mount = tuple[str, str, str]
Rule = tuple[int, Mount]
_SHOWN, _WRITABLE, _HIDDEN, _OWN = range(4)


@dataclass(frozen=True)
class View:
    """The same for all jobs of a process, but for the job's own folder."""

    settings: Settings
    environ: Mapping[str, str]
    # Called each time: an engine may be installed while the runner runs.
    engines: Callable[[], Iterable[Path]] = field(default=tuple)

    def mounts(self, root: Path, env: Mapping[str, str], *, for_git: bool = False) -> list[Mount]:
        """List what is mounted for a child with this environment, parents before their contents."""
        shown = list(self._shown(env, for_git=for_git))
        seen = [*map(Path, _SYSTEM), *(Path(target) for _, (_, _, target) in shown)]
        rules = [*shown, *self._masks(seen), *self._own(root)]
        return [*_system(), *(mount for _, mount in sorted(rules, key=_order))]

    def allowed(self, root: Path, env: Mapping[str, str], *, for_git: bool = False) -> list[tuple[str, str]]:
        """List the same for a sandbox that hides nothing but can name what is seen: `ro` or `rw`, and the place."""
        mounts = self.mounts(root, env, for_git=for_git)
        hidden = {Path(target) for kind, source, target in mounts if kind == "empty" or source == os.devnull}
        shown = [(kind, Path(source)) for kind, source, _ in mounts if kind in {"ro", "rw"} and source != os.devnull]
        # Rights add up here: a read-only place must not be inside a writable one.
        fixed = {path for kind, path in shown if kind == "ro"}
        kept = {"ro": hidden, "rw": hidden | fixed - {path for kind, path in shown if kind == "rw"}}
        parts = ((kind, str(part)) for kind, path in shown for part in _without(path, kept[kind]))
        return [("ro", "/proc"), *(("rw", f"/dev/{name}") for name in DEVICES), *parts]

    def links(self, home: Path) -> list[tuple[str, str]]:
        """List the parts of the runner's home that the operator named, and where a job with its own home looks for them."""
        isolation, own = self.settings.engine.isolation, Path(self.environ.get("HOME") or "/")
        named = [*isolation.read_only_paths, *isolation.writable_paths]
        return [
            (str(path), str(home / path.relative_to(own))) for path in named if own in path.parents and own != Path("/")
        ]

    def shows(self, path: Path) -> bool:
        """Whether jobs may see a place of the machine because the operator named it."""
        isolation = self.settings.engine.isolation
        named = [*isolation.read_only_paths, *isolation.writable_paths]
        real = path.resolve()
        is_secret = any(real.is_relative_to(hidden.resolve()) for hidden in self._hidden())
        return not is_secret and any(real.is_relative_to(each.resolve()) for each in named)

    def _shown(self, env: Mapping[str, str], *, for_git: bool) -> Iterator[Rule]:
        isolation = self.settings.engine.isolation
        git = self._git_paths() if for_git else ()
        for path in [*self._programs(), *self._named_by_variables(env), *isolation.read_only_paths, *git]:
            if _is_readable(path):
                yield _SHOWN, ("ro", *_same(path))
        for path in [*isolation.writable_paths, *self.plugin_cache()]:
            if _is_readable(path):
                yield _WRITABLE, ("rw", *_same(path))

    def _masks(self, shown: list[Path]) -> Iterator[Rule]:
        """Cover what must not be seen, where something that is shown holds it."""
        for path in {each for hidden in self._hidden() for each in (hidden, hidden.resolve())}:
            if any(path.is_relative_to(folder) for folder in shown) and os.access(path, os.F_OK):
                yield _HIDDEN, ("empty", "", str(path)) if path.is_dir() else ("ro", os.devnull, str(path))

    def _own(self, root: Path) -> Iterator[Rule]:
        """The job's folder under its own name, and parts of it as the places that every program writes to."""
        for target, name in (("/tmp", "tmp"), ("/var/tmp", "tmp"), (self.environ.get("HOME", ""), "home")):  # noqa: S108
            if target.startswith("/") and target != "/":
                yield _SHOWN, ("rw", str(root.resolve() / name), target)
        yield _OWN, ("rw", str(root.resolve()), str(root))

    def _programs(self) -> Iterator[Path]:
        """The folders of PATH and of the engines; where a folder holds more than programs, the engine alone."""
        for folder in [
            *map(Path, self.environ.get("PATH", "").split(os.pathsep)),
            *self.settings.engine.additional_binary_paths,
        ]:
            if self._is_for_programs(folder):
                yield folder
        for binary in (each.resolve() for each in self.engines()):
            yield binary.parent if self._is_for_programs(binary.parent) else binary

    def _is_for_programs(self, folder: Path) -> bool:
        keep = [Path(self.environ.get("HOME") or "/"), *self._hidden()]
        is_more = any(each.is_relative_to(folder) for each in keep)
        return folder.is_absolute() and not is_more and not any(folder.is_relative_to(each) for each in _SYSTEM)

    def _named_by_variables(self, env: Mapping[str, str]) -> Iterator[Path]:
        """A file goes with its variable: a child from which that is withheld does not see it."""
        named = {name: value for name, value in self.environ.items() if value and env.get(name) == value}
        for name in _FILES:
            yield from (Path(each) for each in named.get(name, "").split(os.pathsep) if each.startswith("/"))
        for name in _ROTATING:
            if value := named.get(name):
                yield Path(value).parent
        plugins = Path(self.environ.get("HOME") or "/") / ".pulumi" / "plugins"
        yield plugins

    def plugin_cache(self) -> Iterator[Path]:
        """The operator's cache of providers, which jobs fill."""
        if cache := self.environ.get("TF_PLUGIN_CACHE_DIR", ""):
            yield Path(cache)

    def _git_paths(self) -> Iterator[Path]:
        home = Path(self.environ.get("HOME") or "/nonexistent")
        yield from (home / name for name in _GIT)
        if agent := self.environ.get("SSH_AUTH_SOCK"):
            yield Path(agent)

    def _hidden(self) -> Iterator[Path]:
        folders = self.settings.working_directory
        yield folders.working_directory.absolute()
        yield folders.temp_directory.absolute()
        yield from secret_places(self.environ)


def _system() -> Iterator[Mount]:
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            yield "link", str(path.readlink()), name
        elif path.is_dir():
            yield "ro", name, name
    for name in _ETC:
        path = Path("/etc", name)
        if _is_readable(path):
            yield "ro", str(path.resolve()), str(path)


def _without(path: Path, hidden: set[Path]) -> Iterator[Path]:
    """A place; or, where it contains something hidden, everything beside that. Links could lead back to it."""
    if path in hidden:
        return
    inside = f"{path}/"
    if not any(str(each).startswith(inside) for each in hidden):
        yield path
        return
    for child in path.iterdir():
        if not child.is_symlink():
            yield from _without(child, hidden)


def _is_readable(path: Path) -> bool:
    """Whether the runner itself can read it; a folder that it may not even look into is none of a job's."""
    return os.access(path, os.R_OK)


def _same(path: Path) -> tuple[str, str]:
    return str(path.resolve()), str(path)


def _order(rule: Rule) -> tuple[int, int]:
    rank, (_, _, target) = rule
    return len(Path(target).parts), rank
