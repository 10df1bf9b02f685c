"""The spool: nothing written is lost, numbers have no holes, and a crash leaves a readable log."""

import hashlib
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.logs.job_log import JobLog
from worker.logs.redactor import Redactor
from worker.logs.shipper import Batch, BatchRules
from worker.logs.spool import LARGEST_CHUNK, Chunk, Spool, cut_text


def chunks_of(spool: Spool) -> list[Chunk]:
    return list(spool.read(1, spool.last_seq))


def job_log(directory: Path, *, most_bytes: int = 1_000_000, secrets: tuple[str, ...] = ()) -> JobLog:
    return JobLog(Spool(directory), Redactor(secrets), lambda _: None, most_bytes=most_bytes)


def text_of(log: JobLog) -> str:
    log.end_output()
    log.spool.cut()
    return "".join(chunk.body for chunk in chunks_of(log.spool))


@given(st.text(max_size=400), st.integers(4, 50))
def test_cutting_keeps_every_byte_and_whole_characters(text: str, largest: int) -> None:
    data = text.encode()
    pieces, rest = cut_text(data, largest=largest)
    assert b"".join(pieces) + rest == data
    assert all(0 < len(piece) <= largest for piece in pieces)
    assert "".join(piece.decode() for piece in pieces) == text


@given(st.text(alphabet="aé\n", max_size=200), st.integers(1, 9), st.integers(4, 50))
def test_no_chunk_has_more_lines_than_it_may(text: str, most_lines: int, largest: int) -> None:
    pieces, rest = cut_text(text.encode(), most_lines=most_lines, largest=largest)
    assert b"".join(pieces) + rest == text.encode()
    assert all(0 < len(piece) <= largest and len(piece.splitlines()) <= most_lines for piece in pieces)


def test_a_burst_is_cut_into_batches_and_a_flood_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, most_lines=50)
    spool.append("plan", "line\n" * 120)
    spool.cut()
    assert [chunk.body.count("\n") for chunk in chunks_of(spool)] == [50, 50, 20]
    monkeypatch.setattr("worker.logs.spool.MANY_CHUNKS", 3)
    spool.append("plan", "line\n" * 120)
    spool.cut()
    assert [chunk.body.count("\n") for chunk in chunks_of(spool)] == [50, 50, 20, 120]


@given(st.lists(st.tuples(st.sampled_from(["init", "plan"]), st.text(max_size=30), st.booleans()), max_size=30))
def test_written_text_is_read_back_unchanged(writes: list[tuple[str, str, bool]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder))
        for step, text, is_cut in writes:
            spool.append(step, text)
            if is_cut:
                spool.cut()
        spool.cut()
        whole = "".join(text for _, text, _ in writes)
        found = chunks_of(spool)
        spool.close()
    assert "".join(chunk.body for chunk in found) == whole
    assert [chunk.seq for chunk in found] == list(range(1, len(found) + 1))
    assert spool.summary()["sha256"] == hashlib.sha256(whole.encode()).hexdigest()
    assert spool.summary()["bytes"] == len(whole.encode())


def test_each_chunk_belongs_to_one_step(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append("init", "one\n")
    spool.append("plan", "two\n")
    spool.cut()
    assert [(chunk.step, chunk.body) for chunk in chunks_of(spool)] == [("init", "one\n"), ("plan", "two\n")]


def test_a_spool_is_found_again_after_a_crash_with_its_uncut_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append("init", "one\n")
    spool.cut()
    spool.append("init", "two\n")
    (tmp_path / "log.txt").open("ab").write("ü".encode()[:1])
    found = Spool(tmp_path)
    found.cut()
    assert [chunk.body for chunk in chunks_of(found)] == ["one\n", "two\n"]
    assert found.summary()["sha256"] == hashlib.sha256(b"one\ntwo\n").hexdigest()


def test_a_torn_index_line_loses_no_text(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append("init", "one\n")
    spool.cut()
    with (tmp_path / "chunks.jsonl").open("a") as index:
        index.write('{"step": "pl')
    found = Spool(tmp_path)
    found.append("plan", "two\n")
    found.cut()
    assert "".join(chunk.body for chunk in chunks_of(found)) == "one\ntwo\n"


def test_chunks_stay_below_the_servers_limit_even_without_newlines(tmp_path: Path) -> None:
    log = job_log(tmp_path, most_bytes=5_000_000)
    for _ in range(40):
        log.write(b"x" * 65_536)
    assert text_of(log) == "x" * 40 * 65_536 + "\n"
    assert max(len(chunk.body.encode()) for chunk in chunks_of(log.spool)) <= LARGEST_CHUNK


def test_invalid_utf8_and_nul_become_visible_marks(tmp_path: Path) -> None:
    log = job_log(tmp_path)
    for byte in b"a\xff\x00\xe2\x82\xac\n":
        log.write(bytes([byte]))
    assert text_of(log) == "a\ufffd\ufffd€\n"


def test_a_secret_cut_in_two_by_a_buffer_is_masked(tmp_path: Path) -> None:
    log = job_log(tmp_path, secrets=("hunter2hunter2",))
    log.write(b"password is hunter2")
    log.write(b"hunter2\n")
    assert text_of(log) == "password is ***\n"


def test_too_much_output_is_cut_with_a_notice_and_its_end_is_kept(tmp_path: Path) -> None:
    log = job_log(tmp_path, most_bytes=10_000)
    for number in range(20_000):
        log.write(f"line {number}\n".encode())
    log.say("the runner's own words")
    text = text_of(log)
    assert text.startswith("line 0\n")
    assert "truncated" in text
    assert text.endswith("line 19999\nthe runner's own words\n")
    assert len(text) < 100_000
    shown = re.findall(r"^line \d+$", text, re.MULTILINE)
    left_out = re.search(r"([\d,]+) bytes of output are left out", text)
    assert left_out is not None
    assert int(left_out[1].replace(",", "")) == sum(len(f"line {number}\n") for number in range(20_000)) - sum(
        len(line) + 1 for line in shown
    )
    assert len(shown) + text.count("[runyard]") + 2 == len(text.splitlines()), "no line is cut in two"


def test_lines_are_counted_and_half_a_character_at_the_end_is_marked(tmp_path: Path) -> None:
    counted: list[int] = []
    log = JobLog(Spool(tmp_path), Redactor(), counted.append, most_bytes=10)
    log.write(b"one\ntwo\n")
    log.write(b"no end \xe2\x82")
    assert text_of(log).endswith("no end \ufffd\n")
    assert counted == [2, 1]
    log.say("three")
    assert counted[-1] == 1


def test_steps_have_their_own_sections(tmp_path: Path) -> None:
    log = job_log(tmp_path)
    log.begin_step("init")
    log.write(b"no newline at the end")
    log.begin_step("plan")
    log.write(b"plan\n")
    text_of(log)
    assert [(c.step, c.body) for c in chunks_of(log.spool)] == [("init", "no newline at the end\n"), ("plan", "plan\n")]


DISK_FULL = """
import sys, pathlib
from worker.logs.job_log import JobLog
from worker.logs.redactor import Redactor
from worker.logs.spool import Spool
log = JobLog(Spool(pathlib.Path(sys.argv[1])), Redactor(), lambda _: None)
for number in range(2000):
    log.write(f"line {number}\\n".encode())
log.end_output(); log.spool.cut()
text = "".join(c.body for c in log.spool.read(1, log.spool.last_seq))
assert "line 0\\n" in text and "line 1999\\n" in text and "disk is full" in text, text[-300:]
assert log.spool.lost_bytes == 0
print("survived")
"""


def test_a_full_disk_is_reported_and_the_log_continues_in_memory(tmp_path: Path) -> None:
    def limit_file_size() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(tmp_path)],
        preexec_fn=limit_file_size, restore_signals=False, capture_output=True, text=True, check=False,
        cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": str(Path.cwd()), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "survived"


@pytest.mark.parametrize(
    ("last_sent", "events", "now", "due"),
    [
        (float("-inf"), 1, 100.0, 100.0),
        (99.0, 1, 100.0, 105.0),
        (95.0, 1, 100.0, 100.0),
        (99.0, 50, 100.0, float("-inf")),
        (99.0, 0, 100.0, float("inf")),
    ],
)
def test_batches_leave_by_the_rules(last_sent: float, events: int, now: float, due: float) -> None:
    batch = Batch(BatchRules(), last_sent_at=last_sent)
    batch.add(events, now)
    assert batch.due_at() == due


def test_without_the_eager_rule_the_first_line_waits_too() -> None:
    batch = Batch(BatchRules(is_first_at_once=False))
    batch.add(1, 100.0)
    assert batch.due_at() == 105.0


def test_a_secret_at_the_edge_of_omitted_text_is_masked(tmp_path: Path) -> None:
    log = job_log(tmp_path, most_bytes=1000, secrets=("hunter2hunter2",))
    for _ in range(60):
        log.write((b"hunter2hunter2" + b"x" * 50) * 200)
    log.write(b" the end\n")
    text = text_of(log)
    assert "truncated" in text
    assert "hunter" not in text
    assert text.endswith(" the end\n")
