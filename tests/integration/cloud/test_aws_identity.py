"""`runyard-worker credential aws-iam`: AWS identifies the signer, and the service account's trust decides whether that counts."""

import base64
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import boto3
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from stack.settings import PROJECT
from tests.conftest import _open_folder
from tests.integration.edge.conftest import Edge
from tests.integration.edge.people import Person
from tests.support.extent import sampled
from tests.support.stack import RunningStack, start_stack
from tests.unit.worker.dispatch.serving import Call, serve

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ARN = "arn:aws:sts::123456789012:assumed-role/runner/i-0abc"
ROLE = "arn:aws:iam::123456789012:role/runner"
REGION = "eu-west-1"


class Sts:
    """AWS' STS as far as it matters: it checks the signature over address and audience, and names the signer."""

    def __init__(self) -> None:
        self.address = ""
        self.asked = 0
        self.is_moto = False
        self.moto_address = ""
        self.found = {"Arn": ARN, "Account": "123456789012", "UserId": "AROA:i-0abc"}

    def who(self, call: Call) -> tuple[int, Any]:
        self.asked += 1
        if self.is_moto:
            return self.moto(call)
        audience = call.headers.get("x-runyard-audience", "")
        if self.signature(call.query, audience) != call.query["X-Amz-Signature"]:
            return 403, {"Error": {"Code": "SignatureDoesNotMatch"}}
        return 200, {"GetCallerIdentityResponse": {"GetCallerIdentityResult": self.found}}

    def moto(self, _: Call) -> tuple[int, Any]:
        """Return moto's answer about the credentials that signed."""
        client: Any = boto3.client("sts", region_name=REGION, endpoint_url=self.moto_address)
        said = client.get_caller_identity()
        found = {name: said[name] for name in ("Arn", "Account", "UserId")}
        return 200, {"GetCallerIdentityResponse": {"GetCallerIdentityResult": found}}

    def signature(self, query: dict[str, str], audience: str) -> str:
        pairs = "&".join(f"{name}={_quoted(value)}" for name, value in query.items() if name != "X-Amz-Signature")
        request = AWSRequest(method="GET", url=f"{self.address}/?{pairs}", headers={"x-runyard-audience": audience})
        request.context["timestamp"] = query["X-Amz-Date"]
        auth = SigV4QueryAuth(Credentials("testing", "testing"), "sts", REGION)
        return str(auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request))


def _quoted(value: str) -> str:
    from urllib.parse import quote

    return quote(value, safe="-_.~")


@pytest.fixture(scope="module")
def sts() -> Iterator[Sts]:
    made = Sts()
    with serve({"GET /": made.who}) as address:
        made.address = f"http://{address}"
        yield made


@pytest.fixture(scope="module")
def stack(sts: Sts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack whose operator has named that endpoint."""
    hosts = urlsplit(sts.address).netloc
    home = _open_folder(tmp_path_factory.mktemp("stack"))
    with start_stack(home, "--no-dashboard", "--no-demo", RUNYARD_FUNCTIONS_ALLOW_NET=hosts) as started:
        yield started


def helper(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "worker.cli", "credential", "aws-iam", *arguments],
        cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def account(person: Person, **claims: Any) -> str:
    trust = {"issuer": "https://sts.amazonaws.com", "audience": "runyard", "bound_claims": claims}
    spec = {"name": f"aws-{uuid.uuid4().hex[:8]}", "trusts": [trust]}
    return str(person.rpc("create_service_account", p_org=person.org_id, p_spec=spec)["client_id"])


def ask(stack: RunningStack, client_id: str, token: str) -> int:
    edge = Edge(f"{stack.url}/functions/v1", stack)
    body = {"grant_type": EXCHANGE, "client_id": client_id, "subject_token": token}
    return edge.post("service-account-token", body).status_code


@pytest.mark.parametrize("dash", sampled(["-", "--"], 1))
def test_a_machines_identity_in_aws_is_exchanged_for_a_token(
    aws: str, sts: Sts, stack: RunningStack, dash: str
) -> None:
    person = Person(stack)
    token = helper(f"{dash}region", REGION, f"{dash}endpoint", sts.address, f"{dash}audience", "runyard")
    assert ask(stack, account(person, role=ROLE), token) == 200
    assert ask(stack, account(person, account="123456789012", arn=ARN), token) == 200
    assert ask(stack, account(person, arn=f"{ARN}x"), token) == 401, "another machine"


def test_a_request_that_was_signed_for_others_or_changed_is_refused(aws: str, sts: Sts, stack: RunningStack) -> None:
    client_id = account(Person(stack), role=ROLE)
    assert ask(stack, client_id, helper("--region", REGION, "--endpoint", sts.address, "--audience", "others")) == 401
    good = helper("--region", REGION, "--endpoint", sts.address)
    text = good.removeprefix("aws-iam.")
    url = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    asked = sts.asked
    for changed in (
        url.replace("GetCallerIdentity", "GetSessionToken"),
        url.replace(sts.address, "http://169.254.169.254"),
        url.replace(sts.address, "https://sts.amazonaws.com.evil.example"),
        url.replace("X-Amz-Expires=60", "X-Amz-Expires=86400"),
        url.replace("x-runyard-audience", "x-other"),
        url.replace("X-Amz-Expires=60", "X-Amz-Expires=soon"),
        f"{url}&Extra=1",
        f"{url}&X-Amz-Expires=60",
        f"{url}&Action=GetCallerIdentity",
        "nonsense",
    ):
        wrong = "aws-iam." + base64.urlsafe_b64encode(changed.encode()).decode().rstrip("=")
        assert ask(stack, client_id, wrong) == 401, changed
    assert sts.asked == asked, "a stranger's token causes no request"
    assert dict(parse_qsl(urlsplit(url).query))["X-Amz-SignedHeaders"] == "host;x-runyard-audience"


def test_names_inside_a_path_are_not_read_as_fields(
    aws: str, sts: Sts, stack: RunningStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's path may contain nearly every character: the answer is parsed, not searched."""
    arn = 'arn:aws:iam::210987654321:user/<UserId>AIDAVICTIM</UserId>"Account":"123456789012"/eve'
    monkeypatch.setattr(sts, "found", {"Arn": arn, "Account": "210987654321", "UserId": "AIDAEVE"})
    person, token = Person(stack), helper("--region", REGION, "--endpoint", sts.address)
    assert ask(stack, account(person, user_id="AIDAVICTIM"), token) == 401
    assert ask(stack, account(person, account="123456789012"), token) == 401
    assert ask(stack, account(person, user_id="AIDAEVE", arn=arn), token) == 200


def test_a_bound_role_may_be_written_with_its_path(aws: str, sts: Sts, stack: RunningStack) -> None:
    person, token = Person(stack), helper("--region", REGION, "--endpoint", sts.address)
    assert ask(stack, account(person, role="arn:aws:iam::123456789012:role/team/eu/runner"), token) == 200
    assert ask(stack, account(person, role="arn:aws:iam::123456789012:role/runner/eve"), token) == 401
    assert ask(stack, account(person, role="arn:aws:iam::210987654321:role/team/runner"), token) == 401


def test_moto_answers_as_aws_does(aws: str, sts: Sts, stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> None:
    sts.moto_address = aws
    monkeypatch.setattr(sts, "is_moto", True)
    client_id = account(Person(stack), account="123456789012")
    assert ask(stack, client_id, helper("--region", REGION, "--endpoint", sts.address)) == 200


def test_a_machine_without_credentials_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    done = subprocess.run(
        [sys.executable, "-m", "worker.cli", "credential", "aws-iam"], cwd=PROJECT, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, "no AWS credentials" in done.stderr) == (1, True)
