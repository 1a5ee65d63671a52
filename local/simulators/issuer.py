"""A token issuer for this machine only: whoever asks gets a token of any tenant, subject and scopes.

It speaks as OpenID Connect issuers do: discovery, a key set, and a token endpoint for client credentials, where
``tenant_id``, ``subject``, ``audience`` and ``issuer`` may be said besides ``scope``; what is said as nothing is left out of
the token. Its key lives as long as its process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from local.simulators.web import Answer, Drop, problem

if TYPE_CHECKING:
    from local.simulators.web import Request

AUDIENCE: Final = "blsflow-scheduler"
SCOPES: Final = "schedule:read schedule:write schedule:execute schedule:admin"
_KEY_ID: Final = "local"
_LONGEST_SEC: Final = 12 * 3600


class IssuerSimulator:
    """Answers at ``url``, which is also what its tokens name as their issuer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def handle(self, request: Request) -> Answer | Drop:
        """Answer one request."""
        match request.method, request.path:
            case "GET", (".well-known", "openid-configuration"):
                return Answer(
                    document={
                        "issuer": self._url,
                        "jwks_uri": f"{self._url}/jwks.json",
                        "token_endpoint": f"{self._url}/token",
                    }
                )
            case "GET", ("jwks.json",):
                key = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
                return Answer(document={"keys": [{**key, "kid": _KEY_ID, "use": "sig", "alg": "RS256"}]})
            case "POST", ("token",):
                return self._token(request)
        return problem(404, "not_found", "this issuer has no such path")

    def _token(self, request: Request) -> Answer:
        asked = {
            name: values[-1]
            for name, values in parse_qs(request.body.decode(), keep_blank_values=True).items()
        }
        if asked.get("grant_type") != "client_credentials":
            return Answer(document={"error": "unsupported_grant_type"}, status=400)
        seconds = min(int(asked.get("expires_in", "3600")), _LONGEST_SEC)
        return Answer(
            document={
                "access_token": self.sign(
                    tenant_id=asked.get("tenant_id", "north-mining"),
                    subject=asked.get("subject", "operator"),
                    scope=asked.get("scope", SCOPES),
                    audience=asked.get("audience", AUDIENCE),
                    issuer=asked.get("issuer", self._url),
                    expires_in=seconds,
                ),
                "token_type": "Bearer",
                "expires_in": seconds,
            },
            headers={"Cache-Control": "no-store"},
        )

    def sign(  # noqa: PLR0913 - a token's claims
        self,
        *,
        tenant_id: str,
        subject: str,
        scope: str,
        expires_in: int,
        audience: str = AUDIENCE,
        issuer: str | None = None,
    ) -> str:
        """Return a token; a negative ``expires_in`` makes one that has expired, an empty claim is left out."""
        now = int(time.time())
        said = {
            "iss": self._url if issuer is None else issuer,
            "aud": audience,
            "sub": subject,
            "tenant_id": tenant_id,
            "scope": scope,
        }
        claims: dict[str, object] = {name: value for name, value in said.items() if value}
        claims |= {"iat": now - 1, "exp": now + expires_in}
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": _KEY_ID})
