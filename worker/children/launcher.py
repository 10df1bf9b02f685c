"""The prefix of a child's command, so that the child does not outlive its runner unnoticed."""

import shutil
import subprocess
from functools import cache


@cache
def death_signal_prefix() -> tuple[str, ...]:
    """Return the command that asks the kernel to interrupt the child once when the runner dies.

    After `kill -9` of the runner an engine would continue without a state backend. One SIGINT lets it stop in order and
    write `errored.tfstate`, which the next start finds.
    """
    setpriv = shutil.which("setpriv")
    if not setpriv:
        return ()
    prefix = (setpriv, "--pdeathsig", "INT", "--")
    try:
        # BusyBox has a setpriv without this option.
        subprocess.run([*prefix, "true"], check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ()
    return prefix
