"""The repository panel of a module."""

from app.modules.view.repository import INHERIT, build, group_applies, read_form

ROW = {
    "repository": "git.example.com/infra/edge",
    "branch": "main",
    "folder": "vpc",
    "paths": ["shared"],
    "is_on": True,
}


def test_a_module_without_a_connection_has_no_panel() -> None:
    assert build(None)["name"] == ""


def test_before_the_first_reading_the_folder_and_the_added_paths_are_watched() -> None:
    view = build(ROW)
    assert (view["watched"], view["seen"], view["applied"]) == (["vpc", "shared"], "", "")
    assert build({**ROW, "folder": "", "paths": [], "branch": None})["watched"] == ["the whole repository"]
    assert build({**ROW, "branch": None})["branch"] == "the default branch"


def test_after_a_reading_the_panel_shows_folders_and_commits() -> None:
    seen, applied = "8c41f2e" + "0" * 33, "1d77c0b" + "0" * 33
    view = build({**ROW, "watched": ["vpc", "modules/subnets"], "seen_commit": seen, "applied_commit": applied})
    assert (view["watched"], view["seen"], view["applied"]) == (["vpc", "modules/subnets"], "8c41f2e", "1d77c0b")


def test_the_note_explains_why_pushes_plan_or_apply_nothing() -> None:
    assert build(ROW)["note"] == ""
    assert "switched off" in build({**ROW, "is_on": False})["note"]
    assert "not found" in build({**ROW, "error": "repository not found"})["note"]
    assert "never applied" in build({**ROW, "apply": "never"})["note"]


def test_the_note_names_a_folder_that_is_gone_and_offers_the_new_one() -> None:
    gone = {**ROW, "problem": 'main has no folder "vpc".', "moved_to": "network"}
    assert build(gone)["note"] == 'main has no folder "vpc". Until it has a folder again, pushes plan nothing.'
    assert (build(gone)["folder"], build(gone)["moved_to"]) == ("vpc", "network")


def test_commits_that_the_branch_is_ahead_are_counted() -> None:
    assert build({**ROW, "branch": "main", "commits_ahead": 3})["ahead"] == "main is 3 commits ahead"
    assert [build({**ROW, "commits_ahead": ahead})["ahead"] for ahead in (0, None)] == ["", ""]


def test_the_panel_names_the_group_that_sets_when_plans_are_applied() -> None:
    row = {**ROW, "path": "net/vpc", "apply": "before_merge"}
    assert build({**row, "apply_from": "net"})["applies"] == "Before the merge, set by net"
    assert build({**row, "apply_from": "net/vpc"})["applies"] == "Before the merge"
    groups = [{"path": "net", "git_apply": "never"}, {"path": "net/eu", "git_apply": None}, {"path": "network"}]
    found = [group_applies(groups, path) for path in ("net", "net/eu", "network")]
    assert found == ["Never", "Never, set by net", "After the merge"]


def test_the_form_sends_only_changed_fields() -> None:
    view = build({**ROW, "id": "m", "path": "net/vpc", "apply": "never", "apply_from": "net"})
    same = {"branch": "main", "paths": "shared", "apply": INHERIT, "is_on": True}
    assert read_form(view, same) == {}
    changed = {"branch": " ", "paths": "shared\n\n modules/subnets \n", "apply": "before_merge"}
    assert read_form(view, changed) == {
        "branch": None, "paths": ["shared", "modules/subnets"], "apply": "before_merge", "is_on": False,
    }  # fmt: skip
    own = build({**ROW, "path": "net/vpc", "apply": "never", "apply_from": "net/vpc"})
    assert read_form(own, same) == {"apply": None}
