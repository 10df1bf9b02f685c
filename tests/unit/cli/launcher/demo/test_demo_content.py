"""The demo's content is one manifest, for an organisation without any; the activity's modules are in it."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from nacl.public import PrivateKey, SealedBox

from cli.launcher.demo import activity, prepare
from cli.manifest import read_manifest
from stack.settings import Settings


class Recorder:
    """The calls of somebody whose organisation has these modules."""

    def __init__(self, *modules: str) -> None:
        self.modules = modules
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def rows(self, table: str, **filters: str) -> list[dict[str, str]]:
        return [{"path": path} for path in self.modules]

    def call(self, name: str, /, **arguments: Any) -> dict[str, str]:
        self.calls.append((name, arguments))
        return {"id": "1", "label": "sealed", "public_key": str(arguments.get("public_key"))}

    def request(self, *_: object) -> dict[str, str]:
        return {"address": "sealed"}


@pytest.mark.parametrize("opa", [None, Path("/usr/bin/opa")])
def test_an_empty_organisation_gets_the_manifest_and_rules_only_where_opa_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opa: Path | None
) -> None:
    person = Recorder()
    monkeypatch.setattr(prepare, "find", lambda engine: opa if engine.name == "opa" else None)
    labels = prepare._content(Settings(home=tmp_path), person, "example")  # type: ignore[arg-type]
    assert labels == ["sealed"]
    whole = read_manifest(prepare.MANIFEST)
    wanted = {kind: whole[kind] for kind in whole if opa or kind != "policies"}
    assert person.calls[0] == ("apply_manifest", {"org": "example", "manifest": wanted})
    (sealed,) = person.calls[-1][1]["variables"]
    box = base64.b64decode(sealed["value"])
    key = base64.b64decode((tmp_path / "demo" / "sealing.key").read_text().split()[-1])
    assert json.loads(SealedBox(PrivateKey(key)).decrypt(box))["place"][2] == "WAREHOUSE_PASSWORD"


def test_what_somebody_has_made_of_the_demo_stays(tmp_path: Path) -> None:
    person = Recorder("platform/network/vpc")
    prepare._content(Settings(home=tmp_path), person, "example")  # type: ignore[arg-type]
    assert person.calls == []


def test_the_activity_runs_modules_of_the_manifest() -> None:
    paths = {module["path"] for module in read_manifest(prepare.MANIFEST)["modules"]}
    assert {path for path, _ in activity.ROUND} <= paths
    assert set(activity.ONCE) <= {path for path, _ in activity.ROUND}


def test_the_team_is_of_the_person_who_signs_in() -> None:
    assert read_manifest(prepare.MANIFEST)["teams"][0]["members"] == [prepare.DEMO_EMAIL]
