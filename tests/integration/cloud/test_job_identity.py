"""A job's identity in AWS: its engine and hooks assume the role of its phase with a token that STS can verify."""

import json
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

import boto3
import httpx
import jwt
import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.integration.cloud.gate import Gate
from tests.integration.worker_bench import Bench, bench
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal

__all__ = ["bench"]
AUDIENCE = "aws.workload.identity"
ACCOUNT = "123456789012"
ROLES = {phase: f"arn:aws:iam::{ACCOUNT}:role/{phase}" for phase in ("plan", "apply")}
WHO = "import boto3; print('I am', boto3.client('sts').get_caller_identity()['Arn'])"
# What a module's author could try: the token of a plan, for the role that applies.
STEAL = """
import boto3, botocore, os
token = open(os.environ['AWS_WEB_IDENTITY_TOKEN_FILE']).read()
try:
    boto3.client('sts').assume_role_with_web_identity(
        RoleArn='%s', RoleSessionName='thief', WebIdentityToken=token)
    print('STOLEN')
except botocore.exceptions.ClientError as error:
    print('refused:', error.response['Error']['Code'])
"""


class Sts(Gate):
    """STS as far as moto leaves it out: it verifies a web identity against the issuer's keys and the role's trust policy."""

    def answer(self, operation: str, send: Callable[[], httpx.Response]) -> httpx.Response | None:
        if operation != "AssumeRoleWithWebIdentity":
            return super().answer(operation, send)
        fields = parse_qs(send.keywords["content"].decode())  # type: ignore[attr-defined]
        if self._is_trusted(fields["WebIdentityToken"][0], fields["RoleArn"][0]):
            return super().answer(operation, send)
        return httpx.Response(403, text="<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>")

    def _is_trusted(self, token: str, role: str) -> bool:
        iam: Any = boto3.client("iam", endpoint_url=self.upstream)
        [statement] = iam.get_role(RoleName=role.rpartition("/")[2])["Role"]["AssumeRolePolicyDocument"]["Statement"]
        issuer = statement["Principal"]["Federated"].partition("oidc-provider/")[2]
        conditions = statement["Condition"]
        try:
            claims = verified(token, f"http://{issuer}", conditions["StringEquals"][f"{issuer}:aud"])
        except jwt.InvalidTokenError:
            return False
        return fnmatchcase(claims["sub"], conditions["StringLike"][f"{issuer}:sub"])


def verified(token: str, issuer: str, audience: str) -> dict[str, Any]:
    """Read a token as a cloud does: by the issuer's own documents."""
    document = httpx.get(f"{issuer}/.well-known/openid-configuration", timeout=30).json()
    key = jwt.PyJWKClient(document["jwks_uri"]).get_signing_key_from_jwt(token)
    found: dict[str, Any] = jwt.decode(token, key, algorithms=["RS256"], issuer=document["issuer"], audience=audience)
    return found


@pytest.fixture
def sts(aws: str) -> Iterator[Sts]:
    """An AWS account."""
    with Sts(aws) as gate:
        yield gate


def module_with(bench: Bench, **hooks: str) -> str:
    """A module below apps, whose group has the two roles; each trusts the modules below apps in its phase."""
    module = bench.module(hooks=hooks)
    spec = {"kind": "aws", "settings": {f"{phase}_role": role for phase, role in ROLES.items()}}
    identity = bench.rpc("attach_identity", p_org=bench.org, p_path="apps", p_spec=spec)["id"]
    issuer = f"{bench.project.url}/functions/v1/job-identity"
    policies = bench.rpc("identity_trust_policies", p_job_identity=identity, p_issuer=issuer)
    iam: Any = boto3.client("iam")
    for phase in ROLES:
        iam.create_role(RoleName=phase, AssumeRolePolicyDocument=json.dumps(policies[phase]))
    return module


def start_runner(bench: Bench, sts: Sts) -> None:
    """Start a runner whose machine has AWS keys of its own, and whose jobs may use this Python with boto3."""
    shown = ",".join(str(path) for path in (bench.folder, sys.prefix, sys.base_prefix))
    bench.runner(AWS_ENDPOINT_URL=sts.url, RUNYARD__ENGINE__ISOLATION__READONLYPATHS=shown)


def python(script: str, folder: Path, name: str) -> str:
    file = folder / f"{name}.py"
    file.write_text(script)
    return f"{sys.executable} {file}"


def test_plan_and_apply_assume_their_own_roles(bench: Bench, sts: Sts) -> None:
    who = python(WHO, bench.folder, "who")
    steal = python(STEAL % ROLES["apply"], bench.folder, "steal")
    module = module_with(bench, before_plan=f"{who}\n{steal}", after_apply=who)
    start_runner(bench, sts)
    plan = bench.finished("PLAN", module)
    log = bench.log_of(plan["id"])
    assert f"I am arn:aws:sts::{ACCOUNT}:assumed-role/plan/runyard-{plan['id']}-1" in log
    assert "refused: AccessDenied" in log
    assert "STOLEN" not in log
    assert "left out of its environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY" in log
    apply = bench.finished("APPLY", module, plan_job_id=plan["id"])
    assert f"I am arn:aws:sts::{ACCOUNT}:assumed-role/apply/runyard-{apply['id']}-1" in bench.log_of(apply["id"])


def test_testing_an_identity_shows_the_answer_of_the_cloud(bench: Bench, sts: Sts, tmp_path: Path) -> None:
    module = module_with(bench)
    start_runner(bench, sts)
    environment = {**bench.project.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token}
    terminal = Terminal(tmp_path / "config", environment)
    tested = terminal.run("identities", "test", module, "--exchange")
    assert f"aws  AWS takes it for arn:aws:sts::{ACCOUNT}:assumed-role/plan/runyard-" in tested.stdout, tested.stderr
    iam: Any = boto3.client("iam")
    policy = iam.get_role(RoleName="plan")["Role"]["AssumeRolePolicyDocument"]
    elsewhere = json.dumps(policy).replace(f"organization:{bench.org}", "organization:of somebody else")
    iam.update_assume_role_policy(RoleName="plan", PolicyDocument=elsewhere)
    refused = bench.wait_job(bench.enqueue("OUTPUT", module, test_identities=True))
    assert (refused["status"], refused["error"]["code"]) == ("FAILED", "identity_refused")
    assert "AWS answered: " in refused["error"]["message"]
    assert "AccessDenied" in refused["result"]["identities"]["aws"]


@pytest.mark.slow
def test_token_is_renewed_in_place_and_never_shown(bench: Bench, sts: Sts, tmp_path: Path) -> None:
    copies = bench.folder / "copies"
    copies.mkdir(mode=0o777)
    copies.chmod(0o777)
    hook = f"""
    stat -c 'mode %a' "$AWS_WEB_IDENTITY_TOKEN_FILE"
    cat "$AWS_WEB_IDENTITY_TOKEN_FILE"; echo
    cp "$AWS_WEB_IDENTITY_TOKEN_FILE" {copies}/first
    while cmp -s "$AWS_WEB_IDENTITY_TOKEN_FILE" {copies}/first; do sleep 0.2; done
    base64 -w0 < "$AWS_WEB_IDENTITY_TOKEN_FILE"; echo
    cp "$AWS_WEB_IDENTITY_TOKEN_FILE" {copies}/second
    """
    module = module_with(bench, before_plan=hook)
    writable = {"RUNYARD__ENGINE__ISOLATION__WRITABLEPATHS": str(copies)}
    bench.runner(AWS_ENDPOINT_URL=sts.url, **writable)
    job = bench.finished("PLAN", module)
    first, second = ((copies / name).read_text() for name in ("first", "second"))
    issuer = f"{bench.project.url}/functions/v1/job-identity"
    claims = [jwt.decode(each, options={"verify_signature": False}) for each in (first, second)]
    assert claims[0]["jti"] != claims[1]["jti"]
    assert [each["iss"] for each in claims] == [issuer, issuer]
    assert all(each["runyard_job"] == job["id"] for each in claims)
    log = bench.log_of(job["id"])
    assert "mode 600" in log
    for token in (first, second):
        assert token.split(".")[2] not in log
        assert token.split(".")[1][:40] not in log


def test_job_without_identities_keeps_the_machines_credentials(bench: Bench, sts: Sts) -> None:
    module = bench.module(hooks={"before_plan": 'echo "key $AWS_ACCESS_KEY_ID, role ${AWS_ROLE_ARN:-none}"'})
    start_runner(bench, sts)
    log = bench.log_of(bench.finished("PLAN", module)["id"])
    assert ", role none" in log
    assert "Identity" not in log


def test_plan_of_a_pull_request_has_neither_the_identity_nor_the_machines_credentials(
    bench: Bench, sts: Sts, running_stack: RunningStack, tmp_path: Path
) -> None:
    keys = tmp_path / "credentials"
    keys.write_text("[default]\naws_access_key_id = of-the-machine\n")
    show = f"env | grep -c ^AWS_ || true; cat {keys} 2>&1 || true"
    module = module_with(bench, before_plan=show)
    job = bench.enqueue("PLAN", module)
    pull = {"git": {"pull_request": 7, "connection_id": str(uuid4())}}
    with psycopg.connect(running_stack.db_url, autocommit=True) as owner:
        sql = "update public.provision_jobs set payload = jsonb_set(payload, '{options}', payload -> 'options' || %s) where id = %s"
        owner.execute(sql, (Jsonb(pull), job))
    shown = ",".join(str(path) for path in (sys.prefix, sys.base_prefix))
    bench.runner(
        AWS_ENDPOINT_URL=sts.url,
        AWS_SHARED_CREDENTIALS_FILE=str(keys),
        RUNYARD__ENGINE__ISOLATION__READONLYPATHS=shown,
    )
    bench.wait_job(job)
    log = bench.log_of(job)
    assert "Identity aws is withheld from the plan of a pull request; left out of its environment: AWS_ACCESS" in log
    assert "\n0\n" in log
    assert "of-the-machine" not in log
    own = bench.finished("PLAN", module)
    assert "Identity aws, phase plan" in bench.log_of(own["id"])
