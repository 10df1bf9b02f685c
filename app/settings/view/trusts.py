"""Trust in an OIDC issuer: what each platform's tokens say, ready to be filled in."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Platform:
    """A platform that runs workloads: the signer of its tokens, and the claims that distinguish one workload from all others."""

    label: str
    issuer: str
    claims: dict[str, Any]
    hint: str

    @property
    def claims_text(self) -> str:
        return json.dumps(self.claims, indent=2)


PLATFORMS: dict[str, Platform] = {
    "github": Platform(
        "GitHub Actions",
        "https://token.actions.githubusercontent.com",
        {"repository": "OWNER/REPOSITORY", "ref": "refs/heads/main"},
        "The job needs permissions: id-token: write.",
    ),
    "gitlab": Platform(
        "GitLab",
        "https://gitlab.com",
        {"project_path": "GROUP/PROJECT", "ref": "main", "ref_type": "branch"},
        "The job names the audience under id_tokens.",
    ),
    "kubernetes": Platform(
        "Kubernetes",
        "https://OIDC-ISSUER-OF-THE-CLUSTER",
        {"sub": "system:serviceaccount:NAMESPACE:SERVICE-ACCOUNT"},
        "kubectl get --raw /.well-known/openid-configuration names the issuer; it must be public.",
    ),
    "aws": Platform(
        "AWS",
        "https://sts.amazonaws.com",
        {"role": "arn:aws:iam::123456789012:role/ROLE"},
        "The helper runyard-worker credential aws-iam signs who the machine is.",
    ),
    "generic": Platform(
        "Another issuer", "https://ISSUER", {"sub": "SUBJECT"}, "Bind what tells your workload from those of others."
    ),
}
