"""`runyard sign-in`: the company's account."""

import sys
from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, Yes, command, new_app
from cli.errors import NotFound, Usage

PAGE = "Settings → Sign-in"
app = new_app("Signing in with the company's account.")
Domain = Annotated[str, Argument(help="Such as example.com.")]


@command(app, "show", calls=("sign_in_settings",), page=PAGE)
def show(here: Here) -> None:
    """Show the provider, the domains with their DNS records, the groups that fill teams, and your own claims; for admins."""
    settings = _settings(here)
    rows = [{"what": "provider", "name": _named(settings), "says": (settings["provider"] or {}).get("issuer", "")}]
    for each in settings["domains"]:
        says = "proved" if each["proved_at"] else f"{each['record']} TXT {each['value']}"
        rows.append({"what": "domain", "name": each["domain"], "says": says})
    rows += [{"what": "team", "name": team["name"], "says": team["claim"] or "by hand"} for team in settings["teams"]]
    claims = (settings["mine"] or {}).get("claims", {})
    rows += [{"what": "my claim", "name": name, "says": str(value)} for name, value in sorted(claims.items())]
    here.printer.rows(rows, ("what", "name", "says"))


@command(app, "provider", calls=("set_sign_in_provider",), page=PAGE)
def provider(
    here: Here,
    issuer: Annotated[str, Argument(help="Such as https://id.example.com.")],
    client_id: Annotated[str, Argument(help="The client id that the provider gave.")],
    name: Annotated[str, Option("--name", help="Shown on the sign-in page.")] = "Company account",
    claim: Annotated[str, Option("--claim", help="The claim that lists a person's groups.")] = "groups",
    scopes: Annotated[str, Option("--scopes", help="Asked of the provider.")] = "openid email profile offline_access",
    keep_secret: Annotated[bool, Option("--keep-secret", help="Leave the client secret as it is.")] = False,
) -> None:
    """Name the identity provider; its client secret is read from standard input. For owners."""
    secret = "" if keep_secret else sys.stdin.readline().strip()
    if not secret and not keep_secret:
        raise Usage("No client secret came on standard input.", "Pipe it in, or add --keep-secret.")
    spec = {"name": name, "issuer": issuer, "client_id": client_id, "claim": claim, "scopes": scopes}
    given = {"organization": here.org.id, **spec, "client_secret": secret}
    here.printer.result(_ask(here, given), lambda row: f"{row['name']} signs people in: {issuer}")


@command(app, "remove", calls=("remove_sign_in_provider",), page=PAGE)
def remove(here: Here, yes: Yes = False) -> None:
    """Remove the provider with its domains and everybody's identity there; for owners."""
    here.confirm("Remove the identity provider? Members sign in with a password from then on.", yes)
    done = _ask(here, {"organization": here.org.id, "remove": True})
    here.printer.result(done, lambda row: f"Removed {row['name']}")


@command(app, "add-domain", calls=("add_sign_in_domain",), page=PAGE)
def add_domain(here: Here, domain: Domain) -> None:
    """List a domain, and print the DNS record that proves it; for owners."""
    here.do("add_sign_in_domain", "{record} TXT {value}", org=here.org.id, domain=domain)


@command(app, "check-domain", page=PAGE)
def check_domain(here: Here, domain: Domain) -> None:
    """Ask DNS for a domain's proof."""
    done = _ask(here, {"organization": here.org.id, "domain": domain})
    said = "is proved" if done["proved_at"] else "is not proved yet: DNS does not show the record"
    here.printer.result(done, lambda row: f"{row['domain']} {said}")


@command(app, "remove-domain", calls=("remove_sign_in_domain",), page=PAGE)
def remove_domain(here: Here, domain: Domain, yes: Yes = False) -> None:
    """Remove a domain; the provider signs nobody in with its addresses any more. For owners."""
    here.confirm(f"Remove {domain}? Who signed in with such an address needs a password then.", yes)
    here.do("remove_sign_in_domain", "Removed {domain}", org=here.org.id, domain=domain)


@command(app, "group", calls=("set_team_claim",), page=PAGE)
def group(
    here: Here,
    team: Annotated[str, Argument(metavar="TEAM", help="Its name.")],
    group_name: Annotated[
        str, Argument(metavar="[GROUP]", help="As the provider writes it; none: by hand alone.")
    ] = "",
) -> None:
    """Fill a team by a group at the provider; for owners."""
    row = here.org.team(team)
    words = f"is filled by {group_name}" if group_name else "is filled by hand"
    here.do("set_team_claim", f"{row['name']} {words}", team=row["id"], claim=group_name)


@command(app, "rules", calls=("set_sign_in_rules",), page=PAGE)
def rules(
    here: Here,
    role: Annotated[str, Option("--role", help="Who is in no mapped group: operator, viewer, guest or none.")] = "none",
    only: Annotated[bool, Option("--only/--any-way", help="Whether passwords stop counting here.")] = False,
    break_glass: Annotated[str, Option("--break-glass", help="The owner who can enter with a password then.")] = "",
    hours: Annotated[int, Option("--hours", help="How long a sign-in there counts.")] = 24,
) -> None:
    """Choose how people sign in; for owners."""
    owner = here.org.member(break_glass)["user_id"] if break_glass else None
    chosen: dict[str, Any] = {"default_role": None if role == "none" else role, "is_only": only, "hours": hours}
    words = "Members enter through the provider only" if only else "Members sign in any way"
    here.do("set_sign_in_rules", words, org=here.org.id, break_glass=owner, **chosen)


@command(app, "join", calls=("allow_sign_in_link",), page="Account → Company account")
def join(here: Here) -> None:
    """Allow the provider of your domain to join your account: sign in there within a quarter of an hour."""
    here.do("allow_sign_in_link", "Sign in through {name} now; your password ends then.")


def _ask(here: Here, body: dict[str, Any]) -> Any:
    """Ask the edge function that speaks with Auth and with DNS."""
    return here.api.request("POST", "/functions/v1/sign-in", "sign-in", body)


def _settings(here: Here) -> dict[str, Any]:
    found: dict[str, Any] = here.api.call("sign_in_settings", org=here.org.id)
    return found


def _named(settings: dict[str, Any]) -> str:
    if settings["provider"] is None:
        raise NotFound("This organisation has no identity provider.", "`runyard sign-in provider` names one.")
    return str(settings["provider"]["name"])
