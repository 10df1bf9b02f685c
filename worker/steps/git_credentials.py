"""The one credential that a fetch needs: the runner looks it up for the source's own host, and git sees no other."""

import netrc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult

from worker.attempt.workspace import Workspace
from worker.children.child import output_of
from worker.children.environment import host_variables
from worker.errors import WorkerError
from worker.files.own_files import sealed

_LOOKUP_SECONDS = 30.0
# The operator's own configuration of git, found where git would find it.
_OPERATORS = ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")


@dataclass(frozen=True)
class Credential:
    """A user's name and password at one host."""

    username: str
    password: str


async def find_credential(space: Workspace, source: SplitResult) -> Credential | None:
    """Look in the runner's own git configuration, in its `.netrc`, then ask for a token of the repository's GitHub App.

    Never for a source that is not encrypted.
    """
    if source.scheme != "https" or source.password is not None:
        return None
    found = await _from_git(space, source) or _from_netrc(space, source) or await _from_app(space)
    if found is not None:
        space.log.redactor.add(found.password)
    return found


@contextmanager
def credential_helper(
    credential: Credential | None, source: SplitResult, folder: Path
) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """Yield git's settings that hand the credential to the source's host alone, and the descriptors that they need."""
    if credential is None:
        yield {}, ()
        return
    words = f"username={credential.username}\npassword={credential.password}\n".encode()
    with sealed(words, folder) as (path, descriptors):
        host = source.netloc.rpartition("@")[2]
        yield {f"credential.https://{host}.helper": f"!f() {{ test $1 != get || cat '{path}'; }}; f"}, descriptors


async def _from_app(space: Workspace) -> Credential | None:
    """Get a token for an hour and this repository; continue if the project gives none."""
    try:
        given = await space.context.server.repository_token(space.ref) or {}
    except WorkerError as error:
        space.say(f"The repository's GitHub App gives no token: {error.message}")
        return None
    name, token = given.get("username"), given.get("token")
    return Credential(name, token) if isinstance(name, str) and isinstance(token, str) else None


async def _from_git(space: Workspace, source: SplitResult) -> Credential | None:
    """Ask the operator's credential helpers, outside of the repository."""
    wanted = {"protocol": "https", "host": source.netloc.rpartition("@")[2], "path": source.path.lstrip("/")}
    if source.username:
        wanted["username"] = source.username
    question = "".join(f"{name}={value}\n" for name, value in wanted.items()) + "\n"
    environ = space.context.environ
    own = {name: environ[name] for name in ("PATH", *_OPERATORS) if name in environ}
    env = {**host_variables(environ), **own, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true"}
    try:
        argv = ("git", "credential", "fill")
        _, answer, _ = await output_of(argv, _LOOKUP_SECONDS, given=question.encode(), cwd="/", env=env)
    except TimeoutError:
        space.say(f"The runner's git credential helpers did not answer within {_LOOKUP_SECONDS:g} s.")
        return None
    except OSError:
        return None
    found = dict(line.partition("=")[::2] for line in answer.decode(errors="replace").split("\n"))
    return Credential(found.get("username", ""), found["password"]) if found.get("password") else None


def _from_netrc(space: Workspace, source: SplitResult) -> Credential | None:
    """Read the host's own entry; the file's `default` would go to any host that a module names."""
    home = space.context.environ.get("HOME")
    try:
        hosts = netrc.netrc(Path(home) / ".netrc").hosts if home else {}
    except FileNotFoundError:
        return None
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError) as error:
        space.say(f"The runner's .netrc is not used: {error}")
        return None
    if source.hostname == "default" or (entry := hosts.get(source.hostname or "")) is None:
        return None
    login, _, password = entry
    is_other = source.username and source.username != login
    return Credential(login, password) if password and not is_other else None
