"""Who calls: the claims that API Gateway's JWT authorizer has verified, read as tenant, subject and scopes.

Signature, issuer, audience and expiry are the authorizer's; what stands here is only ever called behind it. A token
without a tenant or a subject is nobody's and may do nothing.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from blsflow.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_NAME: Final = 200
LONGEST_IN_ADDRESS_SEC: Final = 900


class Scope(StrEnum):
    """What a token may be good for; none includes another."""

    READ = "schedule:read"
    WRITE = "schedule:write"
    EXECUTE = "schedule:execute"
    ADMIN = "schedule:admin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """A signed-in person or system of one tenant; ``subject`` is what goes on the record."""

    tenant_id: str
    subject: str
    scopes: frozenset[str]

    def require(self, scope: Scope) -> None:
        """Raise the `Problem` ``insufficient_scope`` unless the token has the scope."""
        if scope not in self.scopes:
            raise Problem(
                "insufficient_scope", f"this needs a token with the scope {scope}", scope=str(scope)
            )


def caller_of(event: Mapping[str, Any], *, tenant_claim: str, scope_prefix: str = "") -> Caller:
    """Return the caller of an HTTP API event (payload 2.0); raise the `Problem` ``unauthorized`` if there is none.

    ``scope_prefix`` is what the issuer puts before each of our scopes; one without it is then none of ours.
    The emulator lets a token without an expiry pass, which API Gateway does not: it is refused here as well.
    """
    claims = _claims(event)
    expires = _number(claims.get("exp"))
    if expires is None or not time.time() < expires < math.inf:
        raise Problem("unauthorized", "sign in: the token has no expiry, or has expired")
    return Caller(
        tenant_id=_name(claims, tenant_claim),
        subject=_name(claims, "sub"),
        scopes=frozenset(
            scope.removeprefix(scope_prefix)
            for scope in _scopes(claims.get("scope")) + _scopes(claims.get("scp"))
            if scope.startswith(scope_prefix)
        ),
    )


def require_fit_for_address(event: Mapping[str, Any], caller: Caller) -> None:
    """Raise the `Problem` ``unfit_token`` unless a token may stand in an address, which proxies and histories keep.

    It may be good for reading alone, and for no longer than a quarter of an hour from now.
    """
    more = sorted(caller.scopes & (set(Scope) - {Scope.READ}))
    if more:
        raise Problem(
            "unfit_token",
            f"a token in an address may have the scope {Scope.READ} alone, and this one has {', '.join(more)}",
            scopes=more,
        )
    expires = _number(_claims(event).get("exp"))
    if expires is None or expires > time.time() + LONGEST_IN_ADDRESS_SEC:
        raise Problem(
            "unfit_token",
            f"a token in an address may be good for {LONGEST_IN_ADDRESS_SEC} s at most",
            longest_sec=LONGEST_IN_ADDRESS_SEC,
        )


def _claims(event: Mapping[str, Any]) -> Mapping[str, Any]:
    authorizer = event.get("requestContext", {}).get("authorizer") or {}
    claims: Mapping[str, Any] = (authorizer.get("jwt") or {}).get("claims") or {}
    return claims


def _name(claims: Mapping[str, Any], claim: str) -> str:
    value = claims.get(claim)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME or not value.isprintable():
        raise Problem("unauthorized", f"the token has no usable claim {claim}", claim=claim)
    return value


def _scopes(value: object) -> list[str]:
    """Read scopes as issuers write them: words in a text, or a list; API Gateway makes a list the text ``[a b]``."""
    if isinstance(value, str):
        return value.strip("[]").replace(",", " ").split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _number(value: object) -> float | None:
    """Read a numeric date; API Gateway hands numbers on as text."""
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None
