"""The identity of this machine in AWS, signed: a GetCallerIdentity request that only STS can answer, and only for our audience."""

import base64
from typing import Any

PREFIX = "aws-iam."
AUDIENCE_HEADER = "x-runyard-audience"
URL_SECONDS = 60


def sign_identity(region: str, endpoint: str, audience: str) -> str:
    """Sign the request with the machine's credentials; anyone who has the text may ask STS for a minute who signed it."""
    import boto3
    from botocore.signers import RequestSigner

    session = boto3.Session(region_name=region)
    credentials = session.get_credentials()
    if credentials is None:
        raise LookupError("this machine has no AWS credentials")
    client = session.client("sts", endpoint_url=endpoint)
    model: Any = client.meta.service_model
    signer = RequestSigner(model.service_id, region, "sts", "v4", credentials, session.events)
    request = {
        "method": "GET",
        "url": f"{endpoint}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {AUDIENCE_HEADER: audience},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=region, expires_in=URL_SECONDS, operation_name="")
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def default_endpoint(region: str) -> str:
    """STS of a region; China's has another name."""
    return f"https://sts.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
