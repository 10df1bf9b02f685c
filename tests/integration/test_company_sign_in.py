"""Signing in at a real provider (npm's oidc-provider) through a real stack: Auth, the functions and the database together."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.conftest import _open_folder
from tests.integration.test_cli_login import Typing
from tests.support.company import OWNER, PASSWORD, Company, start_company
from tests.support.identity_provider import SECRET
from tests.support.npm_tools import ToolUnavailable
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    try:
        with start_company(_open_folder(tmp_path_factory.mktemp("company")), "--no-dashboard", "--no-demo") as company:
            yield company
    except ToolUnavailable as error:
        pytest.skip(f"oidc-provider cannot be installed: {error}")


def test_a_first_sign_in_a_new_group_and_a_removed_group(company: Company) -> None:
    session = company.sign_in("ann", groups=["infra-sre", "staff"])
    assert session["user"]["email"] == "ann@example.org"
    assert session["user"]["app_metadata"]["providers"] == [f"custom:{company.org}"]
    assert company.teams(session) == ["sre"]
    assert company.rpc("my_organizations", session["access_token"])[0]["role"] == "guest"
    company.provider.sign_in("ann", groups=["staff"])
    refreshed = company.refresh(session)
    assert refreshed.is_success
    assert (company.teams(session), company.rpc("my_organizations", refreshed.json()["access_token"])) == ([], [])
    company.provider.sign_in("ann", groups=["infra-sre"])
    assert company.refresh(refreshed.json()).is_success
    assert company.teams(session) == ["sre"]


def test_an_account_that_the_provider_disabled_ends_at_the_next_refresh(company: Company) -> None:
    session = company.sign_in("bob", groups=["infra-sre"])
    company.provider.disable("bob")
    ended = company.refresh(session)
    assert (ended.status_code, ended.json()["error_code"]) == (400, "refresh_token_not_found")
    query = "select confirmed_at is null from private.sign_in_confirmations where user_id = %s"
    assert company.one(query, session["user"]["id"]) is True
    assert company.one("select count(*) from auth.sessions where user_id = %s", session["user"]["id"]) == 0


def test_keys_that_were_rotated_are_read_again(company: Company) -> None:
    company.sign_in("cyd")
    company.provider.rotate_keys()
    # Keys are read again at most every ten seconds: the first attempts may come too early.
    arrived = wait_until(lambda: company.arrive(company.back(company.begin("v" * 43))).get("code"), timeout_seconds=60)
    assert company.swap(arrived, "v" * 43).json()["user"]["email"] == "cyd@example.org"


def test_each_step_serves_once_and_only_the_browser_that_began(company: Company) -> None:
    company.provider.sign_in("dan")
    verifier = secrets.token_urlsafe(48)
    address = company.back(company.begin(verifier))
    arrived = company.arrive(address)
    replayed = company.arrive(address)
    assert (replayed["error_code"], "code" in replayed) == ("bad_oauth_state", False)
    stolen = company.swap(arrived["code"], secrets.token_urlsafe(48))
    assert (stolen.status_code, stolen.json()["error_code"]) == (400, "bad_code_verifier")
    burnt = company.swap(arrived["code"], verifier)
    assert (burnt.status_code, burnt.json()["error_code"]) == (404, "flow_state_not_found")
    # Somebody else's code with a state of ours: the provider refuses it, as its PKCE is of another sign-in.
    one, two = (company.back(company.begin(verifier)) for _ in range(2))
    mixed = parse_qs(urlsplit(one).query) | {"code": parse_qs(urlsplit(two).query)["code"]}
    injected = company.arrive(f"{company.stack.url}/auth/v1/callback?" + str(httpx.QueryParams(mixed)))
    assert (injected["error_description"], "code" in injected) == ("The provider's answer is not valid.", False)


@pytest.mark.parametrize("state", ["", "x", "' or 1=1", "%00", "a" * 5000])
def test_a_state_that_was_never_given_signs_nobody_in(company: Company, state: str) -> None:
    answer = company.arrive(f"{company.stack.url}/auth/v1/callback?code=x&state={state}")
    assert answer["error_code"] == "bad_oauth_state"


def test_another_issuers_answer_is_refused(company: Company) -> None:
    company.provider.sign_in("eve")
    address = company.back(company.begin(secrets.token_urlsafe(48)))
    mixed = address.replace("iss=", "iss=https%3A%2F%2Fevil.example.com%2F&x=")
    assert company.arrive(mixed)["error_description"] == "The provider's answer is not valid."
    address = company.back(company.begin(secrets.token_urlsafe(48)))
    assert company.arrive(address.partition("&iss=")[0])["error_description"] == "The provider's answer is not valid."


@pytest.mark.parametrize(
    "target", ["https://evil.example.com/", "//evil.example.com", "http://localhost:1@evil.example.com", "javascript:x"]
)
def test_nobody_is_led_elsewhere(company: Company, target: str) -> None:
    company.provider.sign_in("fay")
    address = company.back(company.begin(secrets.token_urlsafe(48), redirect_to=target))
    assert company.arrive(address)["page"].rstrip("/") == company.stack.settings.dashboard_url


def test_what_nobody_may_begin_with(company: Company) -> None:
    url, whole = f"{company.stack.url}/auth/v1/authorize", {"code_challenge": "a" * 43, "code_challenge_method": "s256"}
    for asked in (
        {"provider": "custom:none", **whole},
        {"provider": "google", **whole},
        {"provider": f"custom:{company.org}"},
        {"provider": f"custom:{company.org}", "code_challenge": "a" * 43, "code_challenge_method": "plain"},
        {"provider": f"custom:{company.org}", "code_challenge": "short", "code_challenge_method": "s256"},
    ):
        answer = httpx.get(url, params=asked, timeout=60)
        assert (answer.status_code, answer.json()["error_code"]) == (400, "validation_failed"), asked


def test_addresses_that_are_not_verified_or_not_of_the_company_sign_nobody_in(company: Company) -> None:
    unverified = company.fails("gus", email_verified=False)
    assert unverified["error_code"] == "provider_email_needs_verification"
    foreign = company.fails("hal", email="hal@elsewhere.org")
    assert foreign["error_description"].startswith("The domain of hal@elsewhere.org is not proved.")
    assert company.fails("ivy", email="")["error_code"] == "email_address_not_provided"
    huge = company.fails("jan", groups=[f"group-{number}" for number in range(5000)])
    assert huge["error_description"].startswith("The provider sent too many groups")
    company.provider.sign_in()
    refused = company.arrive(company.back(company.begin(secrets.token_urlsafe(48))))
    assert (refused["error"], refused["error_description"]) == ("access_denied", "The provider refused: access_denied.")
    for address in ("gus@example.org", "hal@elsewhere.org", "jan@example.org"):
        assert company.one("select count(*) from auth.users where email = %s", address) == 0


def test_an_account_that_was_there_joins_by_its_own_sign_in_and_the_password_ends(company: Company) -> None:
    refused = company.fails("owner")
    assert refused["error_description"].startswith("There is an account with this address already.")
    company.rpc("allow_sign_in_link")
    session = company.sign_in("owner")
    by_password = company.post("/auth/v1/token?grant_type=password", {"email": OWNER, "password": PASSWORD})
    assert by_password.json()["error_code"] == "invalid_credentials"
    old, company.owner = company.owner, session["access_token"]
    assert company.post("/rest/v1/rpc/my_organizations", {}, old).status_code == 401
    shown = company.rpc("sign_in_settings", p_org=company.org)
    assert shown["mine"]["claims"]["email"] == OWNER
    assert SECRET not in json.dumps(shown)


def test_a_program_is_signed_in_by_somebody_whom_the_provider_signed_in(company: Company, tmp_path: Path) -> None:
    session = company.sign_in("liz", groups=["infra-sre"])
    program = Typing(tmp_path / "program", company.stack)
    decided = {"p_user_code": program.code.replace("-", ""), "p_is_confirmed": True}
    company.rpc("decide_device_login", session["access_token"], **decided)
    assert program.ended() == 0, program.said
    assert Terminal(tmp_path / "program").json("whoami")["email"] == "liz@example.org"
    origin = "select o.provider from private.session_origins as o join auth.sessions as s on s.id = o.session_id where s.user_id = %s"
    assert company.one(origin, session["user"]["id"]) == f"custom:{company.org}"


def test_settings_of_a_provider_are_checked_where_they_are_saved(company: Company) -> None:
    spec = {"organization": company.org, "name": "X", "client_id": "x", "client_secret": "x"}
    for issuer in (
        f"{company.provider.issuer}/",
        f"{company.stack.url}/health",
        "http://127.0.0.1:1",
        "https://localhost",
    ):
        refused = company.ask(**spec, issuer=issuer)
        assert (refused.status_code, refused.json()["message"]) == (400, "The issuer has no valid discovery document.")
    stranger = company.sign_in("kim")["access_token"]
    body = {**spec, "issuer": company.provider.issuer}
    assert company.post("/functions/v1/sign-in", body, stranger).json()["code"] == "RY404"
    assert company.post("/functions/v1/sign-in", body).status_code == 401
    # The address of an issuer is read for members alone.
    away = {**body, "issuer": "https://localhost"}
    assert company.post("/functions/v1/sign-in", away, stranger).json()["code"] == "RY404"
    asked = company.post("/functions/v1/sign-in", {"email": "nobody@example.org"}).json()
    assert asked == {"provider": f"custom:{company.org}", "name": "Example ID", "is_only": False}
    assert company.post("/functions/v1/sign-in", {"email": "nobody@elsewhere.org"}).json() == {}


def test_only_the_secret_key_manages_providers_and_nobody_reads_a_secret(company: Company) -> None:
    url, identifier = f"{company.stack.url}/auth/v1/admin/custom-providers", f"custom:{company.org}"
    for key in (company.stack.publishable_key, ""):
        headers = {"apikey": key, "authorization": f"Bearer {company.owner}"}
        assert httpx.get(url, headers=headers, timeout=60).status_code in (401, 403)
    admin = httpx.Client(headers={"apikey": company.stack.secret_key}, timeout=60)
    listed = admin.get(url)
    assert [each["identifier"] for each in listed.json()["providers"]] == [identifier]
    assert SECRET not in listed.text
    whole = {"provider_type": "oidc", "identifier": "custom:two", "name": "Two", "client_id": "x", "client_secret": "y"}
    whole["issuer"] = "https://two.example.com"
    assert admin.post(url, json=whole).status_code == 201
    assert (admin.post(url, json=whole).json()["error_code"], SECRET in listed.text) == ("conflict", False)
    assert admin.patch(f"{url}/custom:two", json={"name": "Three", "enabled": False}).json()["name"] == "Three"
    assert admin.get(f"{url}/custom:two").json()["client_id"] == "x"
    off = httpx.get(
        f"{company.stack.url}/auth/v1/authorize",
        params={"provider": "custom:two", "code_challenge": "a" * 43, "code_challenge_method": "s256"}, timeout=60,
    )  # fmt: skip
    assert off.json()["error_code"] == "provider_disabled"
    for wrong in (
        {"provider_type": "saml"}, {"identifier": "two"}, {"identifier": "custom:../x"}, {"issuer": "ftp://x"}, {"name": ""},
        {"client_secret": 7}, {"scopes": "openid"}, {"authorization_params": {"redirect_uri": "https://evil"}},
        {"attribute_mapping": {"role": "x"}}, {"attribute_mapping": {"email_verified": "x"}}, {"enabled": "yes"}, {"name": "x" * 101},
    ):  # fmt: skip
        refused = admin.post(url, json=whole | {"identifier": "custom:new"} | wrong)
        assert (refused.status_code, refused.json()["error_code"]) == (400, "validation_failed"), wrong
    assert admin.delete(f"{url}/custom:two").status_code == 204
    assert admin.get(f"{url}/custom:two").json()["error_code"] == "custom_provider_not_found"
