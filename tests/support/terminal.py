"""A shell with some variables set; `runyard` runs in this process, which spares a second for each command."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cli.errors import CommandError
from cli.main import cli
from tests.support.stack import clean_environment


@dataclass(frozen=True)
class Done:
    """The exit code and the output of a command."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Terminal:
    """A terminal for commands; profiles are kept below `home` and nowhere else."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, typed: str = "") -> Done:
        foreign = {name: None for name in os.environ if name not in clean_environment()}
        variables = {**foreign, "RUNYARD_CONFIG_HOME": str(self.home), **self.environment}
        done = CliRunner().invoke(cli, arguments, input=typed or None, env=variables)
        if isinstance(done.exception, CommandError):
            return Done(done.exception.exit_code, done.stdout, done.stderr + str(done.exception))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def also(self, **variables: str) -> "Terminal":
        """The same shell with more variables."""
        return Terminal(self.home, {**self.environment, **variables})
