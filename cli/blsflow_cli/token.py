"""`blsflow token`: a token for the API from an issuer that takes client credentials, such as the local stack's own."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlencode, urlsplit

import typer

from blsflow.domain.errors import BlsflowError
from blsflow.settings import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

_VARIABLE: Final = "BLSFLOW_SCHEDULER_ISSUER_URL"
_SCOPES: Final = ("schedule:read", "schedule:write", "schedule:execute", "schedule:admin")
_TIMEOUT_SEC: Final = 10
_MOST_BYTES: Final = 64 * 1024


class NoToken(BlsflowError):
    """The issuer gave no token."""


def token(
    *,
    tenant: Annotated[str, typer.Option("--tenant", help="Whose data it shows.")] = "north-mining",
    subject: Annotated[str, typer.Option("--subject", help="Who it says you are.")] = "operator",
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="What it is good for; repeat it. All, if none is said."),
    ] = None,
    seconds: Annotated[int, typer.Option("--seconds", min=1, max=43_200, help="For how long.")] = 3600,
) -> None:
    """Print a token for the API of the local stack, whose issuer gives everybody any.

    A deployment's own issuer decides by itself whom it gives which claims: ask it as it documents.

    For example:

        TOKEN=$(blsflow token --tenant north-mining)

        blsflow token --scope schedule:read --seconds 300
    """
    typer.echo(_ask(_issuer(), tenant=tenant, subject=subject, scopes=scope or _SCOPES, seconds=seconds))


def _issuer() -> str:
    url = os.environ.get(_VARIABLE)
    if url is None or urlsplit(url).scheme not in {"http", "https"}:
        raise InvalidSetting(
            name=_VARIABLE,
            value=url,
            cause="set it to the issuer's address; `make demo` prints that of its own",
        )
    return url.rstrip("/")


def _ask(issuer: str, *, tenant: str, subject: str, scopes: Sequence[str], seconds: int) -> str:
    asked = {
        "grant_type": "client_credentials",
        "tenant_id": tenant,
        "subject": subject,
        "scope": " ".join(scopes),
        "expires_in": seconds,
    }
    request = urllib.request.Request(f"{issuer}/token", data=urlencode(asked).encode())  # noqa: S310 - http(s), see above
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SEC) as answer:  # noqa: S310 - likewise
            document = json.loads(answer.read(_MOST_BYTES))
        return str(document["access_token"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoToken(f"{issuer} gave no token: {error}") from error


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(token)
