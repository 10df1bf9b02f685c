"""Code that the edge functions share: hashes that they compute, issuers that they call, and addresses that they believe."""

import json
import subprocess
from typing import Any

import bcrypt
import pytest

from stack.functions import find_deno
from stack.settings import PROJECT
from tests.integration.edge.people import make_token

FUNCTIONS = PROJECT / "supabase" / "functions"


def run(script: str) -> Any:
    """Return the output of a script that may import from `_shared`; Deno permits it only to read."""
    command = [str(find_deno()), "run", "--quiet", "--no-prompt", f"--config={FUNCTIONS / 'deno.json'}"]
    done = subprocess.run(
        [*command, f"--allow-read={FUNCTIONS}", "-"], input=script.replace("@shared", f"file://{FUNCTIONS}/_shared"),
        cwd=FUNCTIONS, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_only_hashes_of_the_expected_cost_are_computed() -> None:
    token, digest = make_token()
    _, _, true_cost, _ = digest.split("$")
    stored = [{"token_id": cost, "hash": f"$2b${cost}${digest[7:]}"} for cost in ("07", "13", "31", "99", true_cost)]
    found = run(f"""
        import {{ findMatch }} from "@shared/secrets.ts";
        const stored = {json.dumps(stored)};
        const found = [], claimed = {{ name: "n", owner: "o" }};
        for (const each of stored) found.push((await findMatch({json.dumps(token)}, [each], claimed))?.token_id ?? null);
        console.log(JSON.stringify(found));
        Deno.exit(0);
    """)
    assert found == [None, None, None, None, true_cost]


def test_organisations_take_turns_at_hashing() -> None:
    """One with a long queue is served once before the next one is: the last to come is not the last to be served."""
    digest = bcrypt.hashpw(b"y", bcrypt.gensalt(7)).decode()
    served = run(f"""
        import {{ compare }} from "@shared/hashing.ts";
        const served = [];
        const ask = (owner) => compare("x", {json.dumps(digest)}, owner).then(() => served.push(owner));
        await Promise.all([...Array(20).fill("flood"), "second", "third"].map(ask));
        console.log(JSON.stringify(served));
        Deno.exit(0);
    """)
    assert set(served[:6]) == {"flood", "second", "third"}
    assert served[6:] == ["flood"] * 16


def test_a_flood_leaves_a_thread_to_the_others() -> None:
    digest, costly = (bcrypt.hashpw(b"y", bcrypt.gensalt(cost)).decode() for cost in (5, 10))
    served = run(f"""
        import {{ compare }} from "@shared/hashing.ts";
        const served = [];
        const ask = (owner, hash) => compare("x", hash, owner).then(() => served.push(owner));
        // Both threads have started.
        await Promise.all(["first", "second"].map((owner) => compare("x", {json.dumps(digest)}, owner)));
        const flood = [1, 2].map(() => ask("flood", {json.dumps(costly)}));
        await Promise.all([...flood, ask("other", {json.dumps(digest)})]);
        console.log(JSON.stringify(served));
        Deno.exit(0);
    """)
    assert served == ["other", "flood", "flood"]


CHECK = """
    import { checkAddress } from "@shared/addresses.ts";
    const found = %s;
    const resolve = () => Promise.resolve(found);
    const isTaken = (text) => checkAddress(text, resolve).then(() => true, () => false);
    console.log(JSON.stringify(await Promise.all(%s.map(isTaken))));
"""


def taken(addresses: list[str], resolved: list[str]) -> list[bool]:
    found: list[bool] = run(CHECK % (json.dumps(resolved), json.dumps(addresses)))
    return found


def test_an_issuer_s_name_must_be_public() -> None:
    inside = [
        "http://issuer.example.com", "https://localhost", "https://localhost.", "https://LOCALHOST..",
        "https://vault.internal", "https://vault.internal.", "https://printer.local", "https://x.localhost",
        "https://vault", "https://vault.", "https://127.0.0.1", "https://127.1", "https://0x7f.1", "https://2130706433",
        "https://10.1.2.3", "https://100.64.0.1", "https://100.127.255.254", "https://169.254.169.254",
        "https://172.31.0.1", "https://192.168.0.1", "https://0.0.0.0", "https://224.0.0.1", "https://255.255.255.255",
        "https://[::1]", "https://[::ffff:10.0.0.1]", "https://[fe80::1]", "https://198.18.0.1", "https://168.63.129.16",
        "https://kubernetes.default.svc", "https://api.cluster.local", "https://vault.service.consul",
    ]  # fmt: skip
    outside = ["https://token.actions.githubusercontent.com", "https://issuer.example.com.", "https://100.128.0.1"]
    found = taken([*inside, *outside], ["93.184.216.34"])
    assert dict(zip([*inside, *outside], found, strict=True)) == dict.fromkeys(inside, False) | dict.fromkeys(
        outside, True
    )


@pytest.mark.parametrize(
    ("resolved", "is_taken"),
    [
        (["93.184.216.34", "2606:2800:21f::1"], True),
        (["10.0.0.7"], False),
        (["93.184.216.34", "127.0.0.1"], False),
        (["100.100.100.200"], False),
        (["169.254.169.254"], False),
        (["::1"], False),
        (["fe80::1"], False),
        (["fd00::1"], False),
        (["::ffff:10.0.0.1"], False),
        (["2002:a00:1::"], False),
        (["2001:0:53aa::1"], False),
        (["168.63.129.16"], False),
        ([], False),
    ],
)
def test_an_issuers_name_must_resolve_to_public_addresses(resolved: list[str], is_taken: bool) -> None:
    assert taken(["https://issuer.example.com"], resolved) == [is_taken]


def test_an_issuer_without_a_bound_claim_proves_nothing() -> None:
    """The database refuses such an account, too; everybody at a public issuer would be let in."""
    said = run("""
        import { checkClaims } from "@shared/trust.ts";
        const trust = { issuer: "https://issuer.example.com", audience: "runyard", bound_claims: {} };
        let said = "accepted";
        try { checkClaims({ sub: "x" }, trust); } catch (error) { said = error.message; }
        console.log(JSON.stringify(said));
    """)
    assert said == "no claim is bound"


SEEN = """
    import { addressOf, seenAddress } from "@shared/http.ts";
    const variables = %s;
    Deno.env.get = (name) => variables[name];
    const request = new Request("http://function", { headers: %s });
    console.log(JSON.stringify([seenAddress(request), addressOf(request)]));
"""
HOSTED, NAMED = {"SB_REGION": "eu-central-1"}, {"RUNYARD_ADDRESS_HEADER": "X-Real-IP"}
CLAIMED = "198.51.100.1"


@pytest.mark.parametrize(
    ("variables", "headers", "seen", "counted"),
    [
        ({}, {"x-forwarded-for": f"{CLAIMED}, 203.0.113.9", "cf-connecting-ip": CLAIMED}, "203.0.113.9", "203.0.113.9"),
        ({}, {"cf-connecting-ip": CLAIMED, "x-real-ip": CLAIMED}, "", "unknown"),
        (HOSTED, {"x-forwarded-for": CLAIMED, "cf-connecting-ip": "203.0.113.9"}, "203.0.113.9", "203.0.113.9"),
        (HOSTED, {"x-forwarded-for": f"{CLAIMED}, 203.0.113.9"}, "", CLAIMED),
        (HOSTED, {}, "", "unknown"),
        (NAMED, {"x-real-ip": f"{CLAIMED}, 203.0.113.9", "x-forwarded-for": CLAIMED}, "203.0.113.9", "203.0.113.9"),
        (NAMED | HOSTED, {"cf-connecting-ip": CLAIMED}, "", "unknown"),
    ],
)
def test_the_audited_address_comes_from_a_trusted_proxy(
    variables: dict[str, str], headers: dict[str, str], seen: str, counted: str
) -> None:
    """The caller's claim is never audited; attempts may be counted by it where nothing better is known."""
    assert run(SEEN % (json.dumps(variables), json.dumps(headers))) == [seen, counted]


STS = """
    import { verifyAws } from "@shared/aws.ts";
    const query = "Action=GetCallerIdentity&X-Amz-Expires=60&X-Amz-SignedHeaders=host%%3Bx-runyard-audience";
    const trust = { issuer: "https://sts.amazonaws.com", audience: "runyard", bound_claims: { account: "1" } };
    const isAsked = (host) => verifyAws(`aws-iam.${btoa(`https://${host}/?${query}`)}`, trust)
      .then(() => true, (error) => error.name === "NotCapable");
    console.log(JSON.stringify(await Promise.all(%s.map(isAsked))));
"""


def test_requests_are_sent_only_to_sts_of_known_regions() -> None:
    """Deno may reach nothing here: a host that passes the check ends at the sandbox."""
    known = ["sts.amazonaws.com", "sts.eu-west-1.amazonaws.com", "sts.cn-north-1.amazonaws.com.cn"]
    others = ["sts.s3.amazonaws.com", "sts.eu-west-9.amazonaws.com", "sts.eu-west-1.amazonaws.com:8443",
              "sts.eu-west-1.amazonaws.com.cn", "sts.amazonaws.com.evil.example"]  # fmt: skip
    assert run(STS % json.dumps(known + others)) == [True] * len(known) + [False] * len(others)
