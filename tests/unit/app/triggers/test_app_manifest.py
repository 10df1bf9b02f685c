"""The manifest of a GitHub App: its own addresses, and no right that it does not need."""

from app.triggers.routes import build_manifest


def test_events_and_the_code_are_sent_to_the_apps_own_address() -> None:
    manifest = build_manifest(
        {"id": "5b0a7a52-0000"}, "https://p.example.com/functions/v1/git", "https://r.example.com"
    )
    assert manifest["hook_attributes"]["url"] == "https://p.example.com/functions/v1/git/5b0a7a52-0000"
    assert manifest["redirect_url"] == "https://r.example.com/api/git/app/5b0a7a52-0000"
    rights = manifest["default_permissions"]
    assert (manifest["public"], rights["contents"]) == (False, "read")
    assert {name for name, right in rights.items() if right == "write"} == {"statuses", "pull_requests", "issues"}
