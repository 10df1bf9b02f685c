"""The identity of this machine in AWS, signed: a GetCallerIdentity request that only STS can answer, and only for our audience."""

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boto3.session import Session

PREFIX = "aws-iam."
AUDIENCE_HEADER = "x-runyard-audience"
URL_SECONDS = 60


def sign_identity(region: str, endpoint: str, audience: str) -> str:
    """Sign the request with the machine's credentials; anyone who has the text may ask STS for a minute who signed it."""
    import boto3

    return PREFIX + signed_request(boto3.Session(region_name=region), region, {AUDIENCE_HEADER: audience}, endpoint)


def signed_request(session: "Session", region: str, headers: dict[str, str], endpoint: str | None = None) -> str:
    """A GetCallerIdentity request with these headers, in Base64; raises `LookupError` where there are no credentials."""
    from botocore.signers import RequestSigner

    credentials = session.get_credentials()
    if credentials is None:
        raise LookupError("this machine has no AWS credentials")
    make: Callable[..., Any] = session.client
    meta = make("sts", region_name=region, endpoint_url=endpoint).meta
    signer = RequestSigner(meta.service_model.service_id, region, "sts", "v4", credentials, session.events)
    request = {
        "method": "GET",
        "url": f"{meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": headers,
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=region, expires_in=URL_SECONDS, operation_name="")
    return base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def default_endpoint(region: str) -> str:
    """STS of a region; China's has another name."""
    return f"https://sts.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
