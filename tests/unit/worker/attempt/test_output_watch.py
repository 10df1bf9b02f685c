"""A full disk is recognised in a command's output, however the engine wraps and the pipe cuts it."""

import time
from collections.abc import Callable

import pytest

from worker.attempt.output_watch import OutputWatch
from worker.logs.redactor import Redactor

BOX = (
    "\x1b[31m╷\x1b[0m\x1b[0m\n\x1b[31m│\x1b[0m \x1b[0m\x1b[1m\x1b[31mError: \x1b[0m\x1b[0m\x1b[1mFailed to write plan file\x1b[0m\n"
    "\x1b[31m│\x1b[0m \x1b[0m\n\x1b[31m│\x1b[0m \x1b[0mThe plan file could not be written: write /jobs/plan.tfplan: no space left on\n"
    "\x1b[31m│\x1b[0m \x1b[0mdevice.\n\x1b[31m╵\x1b[0m\x1b[0m\n"
).encode()


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize("text", [BOX, b"sh: 1: cannot create x: No space left on device\n", b"Disk quota exceeded"])
def test_a_full_disk_is_recognised(text: bytes, size: int) -> None:
    seen = OutputWatch()
    for at in range(0, len(text), size):
        seen.feed(text[at : at + size])
    assert seen.is_disk_full


UNDECLARED = """Error: Reference to undeclared input variable

  on main.tf line 2, in resource "terraform_data" "a":
   2:   input = var.nope

An input variable with the name "nope" has not been declared. This variable
can be declared with a variable "nope" {} block.
"""
PROVISIONER = """Error: local-exec provisioner error

  with terraform_data.slow,
  on main.tf line 4, in resource "terraform_data" "slow":
"""
LOCK = """Error: Error acquiring the state lock

Error message: conflict
Lock Info:
  ID:        5b0a7a52
  Operation: OperationTypeApply
  Who:       ann@laptop
"""
# Terragrunt's, with a line for each of its causes.
SOURCE = """Error: downloading source url git::https://127.0.0.1:9/none.git
error occurred:

* error downloading 'https://127.0.0.1:9/none.git': git exited with 128:
  fatal: Couldn't connect to server
"""
UNFINISHED = "Error: Error: Missing expression\nError:   on ./terragrunt.hcl line 1:\nError:    1: inputs = {\n"
PROBLEMS = "Error: 2 problems:\n\n- Missing region: the provider needs\none.\n- Missing name\n"


def boxed(text: str) -> bytes:
    lines = "".join(f"\x1b[31m│\x1b[0m {line}\x1b[0m\n" for line in text.splitlines())
    return f"╷\n{lines}╵\nReleasing the lock\n".encode()


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize(
    ("text", "headline"),
    [
        (UNDECLARED, "Undeclared variable `nope` · main.tf:2"),
        (PROVISIONER, "local-exec provisioner error · main.tf:4"),
        (LOCK, "Error acquiring the state lock (held by ann@laptop)"),
        (PROBLEMS, "2 problems: - Missing region: the provider needs one. - Missing name"),
        (UNFINISHED, "Missing expression · ./terragrunt.hcl:1"),
        (
            SOURCE,
            "error downloading 'https://127.0.0.1:9/none.git': git exited with 128: fatal: Couldn't connect to server",
        ),
        ("Error: Invalid reference\n\nWho:  nobody\n", "Invalid reference"),
    ],
)
def test_an_error_names_its_problems_and_the_holder_of_a_lock(text: str, headline: str, size: int) -> None:
    seen, data = OutputWatch(), boxed(text)
    for at in range(0, len(data), size):
        seen.feed(data[at : at + size])
    assert seen.first_error == headline


def test_other_errors_are_no_full_disk() -> None:
    seen = OutputWatch()
    seen.feed(b"Error: Invalid reference\nError: another\n")
    assert (seen.is_disk_full, seen.first_error) == (False, "Invalid reference")


PROGRESS = b"module.network.aws_subnet.private[7]: Creation complete after 12s [id=subnet-0a1b2c3d4e5f6071]\n" * 700


def test_a_full_disk_counts_where_a_command_ended_with_it() -> None:
    seen = OutputWatch()
    for piece in (BOX, PROGRESS):
        seen.feed(piece)
    assert (seen.is_disk_full, seen.first_error) == (False, "Failed to write plan file")


def test_looking_at_the_output_costs_less_than_the_log_of_it() -> None:
    def computing(feed: Callable[[], object]) -> float:
        began = time.thread_time()
        for _ in range(30):
            feed()
        return time.thread_time() - began

    seen, redactor, text = OutputWatch(), Redactor(), PROGRESS.decode()
    assert computing(lambda: seen.feed(PROGRESS)) < computing(lambda: redactor.feed(text)) / 2
