"""The result of a back-test in words: how many plans the rules would have refused, by rule and resource."""

from dataclasses import dataclass

from app.ui.view import STATUS_WORDS, Row, count, read

_UNCLEAR = "Unclear: the redacted plan has not all that the rules read"


@dataclass(frozen=True)
class Finding:
    """One thing that a rule found in an earlier plan."""

    number: str
    path: str
    resource: str
    text: str
    outcome: str


@dataclass(frozen=True)
class Rule:
    name: str
    is_warning: bool
    words: str
    more: str
    found: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class PolicyTest:
    name: str = ""
    path: str = ""
    about: str = ""
    done: str = ""
    of_modules: str = ""
    passed: int = 0
    refused: int = 0
    applied: str = ""
    unclear: int = 0
    missing: int = 0
    is_done: bool = False
    rules: tuple[Rule, ...] = ()


def build(answer: Row | None) -> PolicyTest:
    """Put the answer into words; nothing for another job."""
    if not answer:
        return PolicyTest()
    days, place = count(int(answer["days"]), "day"), answer["path"] or "all modules"
    source = answer.get("source") or "Written in the browser"
    return read(
        PolicyTest,
        answer,
        about=f"{source}, over the plans of {place} in the last {days}. Nothing was changed.",
        done=f"{answer['done']} of {answer['total']}",
        of_modules=f"of {count(int(answer['modules']), 'module')}",
        applied=f"{answer['applied']} of them were applied" if answer["applied"] else "",
        is_done=answer["status"] == "SUCCEEDED",
        rules=map(_rule, answer["rules"]),
    )


def _rule(row: Row) -> Rule:
    more = int(row["plans"]) - len({each["number"] for each in row["items"]})
    return Rule(
        name=str(row["rule"] or (_UNCLEAR if row["kind"] == "unclear" else "The set cannot be evaluated")),
        is_warning=row["kind"] != "deny",
        words=f"{count(int(row['plans']), 'plan')} of {count(int(row['modules']), 'module')}",
        more=f"{count(more, 'more plan')}" if more > 0 else "",
        found=tuple(map(_finding, row["items"])),
    )


def _finding(row: Row) -> Finding:
    outcome = "Applied" if row["outcome"] == "SUCCEEDED" else STATUS_WORDS.get(str(row["outcome"]), "Not applied")
    return read(Finding, row, path=row["module_path"], outcome=outcome)
