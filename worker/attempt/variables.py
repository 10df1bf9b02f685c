"""The variables of one job, as the server gave them to the attempt that holds the lease."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from worker.api.replies import GivenVariable
from worker.children.environment import sensitive_values
from worker.enums import VariableKind


@dataclass(frozen=True)
class JobVariables:
    """Values by name; which one wins is decided on the server."""

    inputs: dict[str, Any] = field(default_factory=dict, repr=False)
    expressions: dict[str, str] = field(default_factory=dict, repr=False)
    env: dict[str, str] = field(default_factory=dict, repr=False)
    files: dict[str, str] = field(default_factory=dict, repr=False)
    # Names of environment variables that are sealed, or read from a vault.
    secret_env: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, given: Iterable[GivenVariable]) -> "JobVariables":
        """Sort the variables by what becomes of them."""
        sorted_by_kind = cls()
        for each in given:
            sorted_by_kind._place(each)[each.name] = each.value
            if each.kind is VariableKind.ENV and each.key_id:
                sorted_by_kind.secret_env.add(each.name)
        return sorted_by_kind

    def _place(self, each: GivenVariable) -> dict[str, Any]:
        match each.kind:
            case VariableKind.ENV:
                return self.env
            case VariableKind.FILE:
                return self.files
            case VariableKind.INPUT:
                return self.expressions if each.is_hcl else self.inputs

    def secrets(self) -> list[str]:
        """List the texts of those whose names suggest secrets."""
        kinds: tuple[dict[str, Any], ...] = (self.inputs, self.expressions, self.env, self.files)
        return [text for values in kinds for text in sensitive_values(values)]
