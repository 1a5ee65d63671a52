"""The deployed API as callers meet it: every operation against every kind of token, and browsers from elsewhere."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any, Final

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from local.product import CONSOLE_ORIGIN
from local.simulators.issuer import AUDIENCE, SCOPES
from tests.api_operations import Operation, operations, owned_ids, unowned_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.e2e.conftest import Watched

TENANT: Final = "newcomer"
"""A tenant that has nothing, so that nothing here moves what other tests look at."""
OWNER: Final = "north-mining"

every_operation = pytest.mark.parametrize("operation", operations(), ids=str)


class Caller:
    """The API and the issuer, by HTTP."""

    def __init__(self, product: Watched, http: httpx.Client) -> None:
        self._api = product.product.api_url
        self._issuer = product.product.issuer_url
        self._http = http

    def token(self, **said: str) -> str:
        """A token of the real issuer, of a tenant that has nothing unless another is said."""
        asked = {"grant_type": "client_credentials", "tenant_id": TENANT, **said}
        answer = self._http.post(f"{self._issuer}/token", data=asked)
        return str(answer.json()["access_token"])

    def bad_tokens(self) -> dict[str, str]:
        """Tokens that the gateway has to refuse, by what is wrong with them."""
        good = self.token()
        claims = jwt.decode(good, options={"verify_signature": False})
        own_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        head, body, signature = good.split(".")
        forged = (
            base64.urlsafe_b64encode(json.dumps({**claims, "tenant_id": OWNER}).encode()).decode().rstrip("=")
        )
        return {
            "garbage": "garbage",
            "no signature": f"{head}.{body}.",
            "other claims under the signature": f"{head}.{forged}.{signature}",
            "own key": jwt.encode(claims, own_key, algorithm="RS256", headers={"kid": "local"}),
            "none": jwt.encode(claims, "", algorithm="none", headers={"kid": "local"}),
            "shared secret": jwt.encode(claims, "s" * 40, algorithm="HS256", headers={"kid": "local"}),
            "expired": self.token(expires_in="-60"),
            "another issuer": self.token(issuer="http://elsewhere.example"),
            "another audience": self.token(audience="somebody-else"),
            "no audience": self.token(audience=""),
        }

    def call(
        self,
        operation: Operation,
        token: str | None,
        *,
        ids: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Ask for an operation by its sample."""
        signed_in = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self._http.request(
            operation.method,
            self._api + operation.sample_path(ids or {}),
            params={name: str(value) for name, value in operation.sample_query().items()},
            json=operation.sample_body(),
            headers={**operation.sample_headers(), **signed_in, **(headers or {})},
        )

    def preflight(self, origin: str, method: str, headers: str) -> httpx.Response:
        """Ask as a browser does before it asks."""
        asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers}
        return self._http.options(f"{self._api}/schedules", headers={"Origin": origin, **asked})


@pytest.fixture(scope="module")
def caller(product: Watched) -> Iterator[Caller]:
    """Somebody who calls the deployed API."""
    with httpx.Client(timeout=30) as http:
        yield Caller(product, http)


@pytest.fixture(scope="module")
def bad_tokens(caller: Caller) -> dict[str, str]:
    """Tokens that are none."""
    return caller.bad_tokens()


def _as_documented(operation: Operation, response: httpx.Response) -> str | None:
    """Hold an answer against the document; return the problem's code."""
    described = operation.described["responses"][str(response.status_code)]
    content_type = response.headers["content-type"]
    assert content_type in described["content"]
    if content_type != "application/problem+json":
        return None
    problem: dict[str, Any] = response.json()
    assert f"`{problem['code']}`" in described["description"]
    assert problem["request_id"] == response.headers["x-request-id"]
    return str(problem["code"])


@every_operation
def test_a_token_that_is_none_is_refused_by_the_gateway(
    caller: Caller, bad_tokens: Mapping[str, str], operation: Operation
) -> None:
    """R9.1: whatever is wrong with a token, the gateway says the same 401 and the function never sees the request."""
    for what, token in [("none at all", None), *bad_tokens.items()]:
        response = caller.call(operation, token)
        if operation.scope is None:
            assert response.status_code == 200, what
            continue
        assert response.status_code == 401, what
        assert _as_documented(operation, response) is None
        assert response.json().keys() == {"message"}, what
        assert "x-request-id" not in response.headers, what


@every_operation
def test_a_token_without_a_tenant_or_a_subject_is_nobodys(caller: Caller, operation: Operation) -> None:
    """R9.1: such a token is the issuer's own, and is good for nothing."""
    for lacking in ({"tenant_id": ""}, {"subject": ""}):
        response = caller.call(operation, caller.token(**lacking))
        code = _as_documented(operation, response)
        assert (response.status_code, code) == ((401, "unauthorized") if operation.scope else (200, None))


@every_operation
def test_each_scope_is_good_for_its_own_operations_only(caller: Caller, operation: Operation) -> None:
    """R9.1: one scope opens exactly the operations that name it; every other token is told which it would need."""
    for scope in SCOPES.split():
        response = caller.call(operation, caller.token(scope=scope))
        code = _as_documented(operation, response)
        if operation.scope in {None, scope}:
            assert response.status_code in {200, 201, 202, 404, 409, 412, 422}, response.text
        else:
            assert (response.status_code, code) == (403, "insufficient_scope")
            assert response.json()["params"] == {"scope": operation.scope}


@pytest.mark.parametrize("operation", [each for each in operations() if each.of("path")], ids=str)
def test_what_is_another_tenants_does_not_exist(
    product: Watched, caller: Caller, operation: Operation
) -> None:
    """R9.1: an id of somebody else and one of nobody get the same 404, word for word."""
    token = caller.token()
    theirs = owned_ids(operation, OWNER, product.value)
    told = []
    for ids in (theirs, {name: unowned_id(name) for name in theirs}):
        response = caller.call(operation, token, ids=ids)
        code = _as_documented(operation, response)
        assert code == "not_found" or response.json() == {"items": [], "next_cursor": None}, response.text
        text = json.dumps({**response.json(), "request_id": None})
        for number in sorted(map(str, ids.values()), key=len, reverse=True):
            text = text.replace(f" {number}", " N").replace(f'"{number}"', '"N"')
        of_the_connection = {"connection", "date"}  # the server's own, whatever it answers
        told.append((response.status_code, text, sorted(set(response.headers) - of_the_connection)))
    assert told[0] == told[1]


def test_a_console_may_call_from_its_own_origin(caller: Caller) -> None:
    """R9.1: a browser is told beforehand what the console may send, and may read what it needs afterwards."""
    wanted = "authorization,content-type,if-match,idempotency-key"
    for method in sorted({operation.method for operation in operations()}):
        allowed = caller.preflight(CONSOLE_ORIGIN, method, wanted)
        assert allowed.status_code in {200, 204}
        assert allowed.headers["access-control-allow-origin"] == CONSOLE_ORIGIN
        assert method in allowed.headers["access-control-allow-methods"].upper()
        assert set(wanted.split(",")) <= {
            each.strip() for each in allowed.headers["access-control-allow-headers"].lower().split(",")
        }
        assert "access-control-allow-credentials" not in allowed.headers
    reading = next(operation for operation in operations() if operation.name == "list_schedules")
    read = caller.call(reading, caller.token(), headers={"Origin": CONSOLE_ORIGIN})
    assert read.headers["access-control-allow-origin"] == CONSOLE_ORIGIN
    exposed = {each.strip() for each in read.headers["access-control-expose-headers"].lower().split(",")}
    assert {"etag", "location", "retry-after", "x-request-id"} <= exposed


@pytest.mark.parametrize(
    "origin", ["http://elsewhere.example", "null", CONSOLE_ORIGIN + ".elsewhere.example"]
)
def test_another_origin_is_told_nothing(caller: Caller, origin: str) -> None:
    """R9.1: a page from elsewhere may neither ask nor read."""
    assert "access-control-allow-origin" not in caller.preflight(origin, "GET", "authorization").headers
    reading = next(operation for operation in operations() if operation.name == "list_schedules")
    read = caller.call(reading, caller.token(), headers={"Origin": origin})
    assert "access-control-allow-origin" not in read.headers


def test_the_token_of_the_test_is_a_good_one(caller: Caller) -> None:
    """R9.1: what was refused above was refused for what is wrong with it."""
    claims = jwt.decode(caller.token(), options={"verify_signature": False})
    assert claims["aud"] == AUDIENCE
    assert claims["exp"] > time.time()
    reading = next(operation for operation in operations() if operation.name == "list_schedules")
    assert caller.call(reading, caller.token()).status_code == 200
