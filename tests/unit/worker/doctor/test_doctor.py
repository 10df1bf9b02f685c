"""The doctor's checks: each one finds its problem and names a remedy."""

import email.utils
import os
from pathlib import Path

import httpx
import pytest

from worker.doctor.check import Check, Verdict
from worker.doctor.examine import summary
from worker.doctor.host import directory, disk, engines, user
from worker.doctor.network import clock, remedy_for

NOW = 1_800_000_000.0


def fake_engine(folder: Path, name: str, script: str) -> None:
    """Write an executable in the place of an engine."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("skew", "verdict"), [(0, Verdict.OK), (-4, Verdict.OK), (30, Verdict.WARN), (-3600, Verdict.FAIL)]
)
def test_clock_skew_is_judged_by_its_size(skew: int, verdict: Verdict) -> None:
    check = clock(email.utils.formatdate(NOW, usegmt=True), NOW + skew)
    assert check.verdict is verdict
    assert ("ahead" in check.seen) == (skew > 0)


def test_a_directory_that_others_may_write_is_a_warning(tmp_path: Path) -> None:
    assert directory("Working directory", tmp_path / "new" / "one").verdict is Verdict.OK
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    check = directory("Working directory", loose)
    assert check.verdict is Verdict.WARN
    assert "chmod 700" in check.remedy


def test_a_directory_that_cannot_exist_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = directory("Working directory", tmp_path / "file" / "below")
    assert check.verdict is Verdict.FAIL
    assert "WorkingDirectory" in check.remedy


@pytest.mark.parametrize(("uid", "verdict"), [(0, Verdict.WARN), (10001, Verdict.OK)])
def test_a_runner_that_is_root_is_a_warning(monkeypatch: pytest.MonkeyPatch, uid: int, verdict: Verdict) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert user().verdict is verdict


def test_free_disk_space_is_measured_for_a_directory_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert "GB free" in disk(tmp_path / "not" / "yet").seen


def test_engines_come_from_the_additional_directories_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_engine(tmp_path / "path", "tofu", "echo OpenTofu v1.0.0")
    fake_engine(tmp_path / "more", "tofu", "echo OpenTofu v2.0.0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert "tofu 1.0.0" in engines([]).seen
    assert "tofu 2.0.0" in engines([tmp_path / "more"]).seen


def test_a_missing_engine_is_a_failure_and_a_broken_one_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RUNYARD_ENGINE_CACHE", str(tmp_path / "cache"))
    missing = engines([])
    assert missing.verdict is Verdict.FAIL
    assert "runyard engines ensure tofu" in missing.remedy
    fake_engine(tmp_path, "pulumi", "exit 1")
    check = engines([])
    assert check.verdict is Verdict.WARN
    assert "pulumi" in check.remedy


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectError("certificate verify failed: self-signed certificate"), "SSL_CERT_FILE"),
        (httpx.ConnectError("[Errno -2] Name or service not known"), "nowhere.example can be resolved"),
        (httpx.ConnectTimeout("timed out"), "HTTPS_PROXY"),
        (httpx.ConnectError("All connection attempts failed"), "SUPABASE_URL"),
    ],
)
def test_each_network_error_has_its_own_remedy(error: httpx.HTTPError, words: str) -> None:
    assert words in remedy_for(error, "https://nowhere.example")


def test_the_summary_counts_failed_checks() -> None:
    good, bad = Check("a", Verdict.OK, ""), Check("b", Verdict.FAIL, "", "x")
    assert summary([good]) == "The runner is ready to work."
    assert "1 to put right" in summary([good, bad])
