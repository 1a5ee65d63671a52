import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blsflow.web.caller import (
    LONGEST_IN_ADDRESS_SEC,
    Caller,
    Scope,
    caller_of,
    require_fit_for_address,
)
from blsflow.web.problems import Problem

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _event(**claims: object) -> dict[str, object]:
    known = {"sub": "ann", "tenant_id": "acme", "scope": "schedule:read", "exp": str(int(time.time()) + 60)}
    return {"requestContext": {"authorizer": {"jwt": {"claims": {**known, **claims}}}}}


def _refused(event: dict[str, object], claim: str = "tenant_id") -> str:
    with pytest.raises(Problem) as refused:
        caller_of(event, tenant_claim=claim)
    return refused.value.code


def test_a_caller_is_who_the_claims_name() -> None:
    """R9.1: tenant, subject and scopes come from the verified token, the tenant from the claim that the settings name."""
    event = _event(**{"custom:org": "umbra"})
    assert caller_of(event, tenant_claim="custom:org") == Caller(
        tenant_id="umbra", subject="ann", scopes=frozenset({"schedule:read"})
    )


@pytest.mark.parametrize(
    "claims",
    [
        {"scope": "schedule:read schedule:write"},
        {"scope": "[schedule:read schedule:write]"},
        {"scope": ["schedule:read", "schedule:write", 7]},
        {"scope": None, "scp": "schedule:read,schedule:write"},
        {"scope": "schedule:read", "scp": ["schedule:write"]},
    ],
)
def test_scopes_are_read_as_issuers_write_them(claims: dict[str, object]) -> None:
    """R9.1: words in a text, a list, or a list that the gateway made a text."""
    assert caller_of(_event(**claims), tenant_claim="tenant_id").scopes == {"schedule:read", "schedule:write"}


@pytest.mark.parametrize("scope", Scope)
def test_no_scope_includes_another(scope: Scope) -> None:
    """R9.1: whoever may administer may not read by that alone."""
    who = Caller(tenant_id="acme", subject="ann", scopes=frozenset({scope}))
    who.require(scope)
    for other in set(Scope) - {scope}:
        with pytest.raises(Problem, match=other) as refused:
            who.require(other)
        assert (refused.value.code, refused.value.params) == ("insufficient_scope", {"scope": str(other)})


@pytest.mark.parametrize(
    "expires", [None, "", "never", "nan", "inf", "-inf", "0", 0, -1, math.nan, math.inf, [], "1e999"]
)
def test_a_token_that_does_not_expire_is_none(expires: object) -> None:
    """R9.1: no expiry, one that is past, and one that is no time are nobody's."""
    assert _refused(_event(exp=expires)) == "unauthorized"


@pytest.mark.parametrize("name", ["", None, 7, ["acme"], {"a": 1}, "a" * 201, "a\nb", "a\x00", "\u202eacme"])
def test_a_name_that_cannot_be_recorded_is_nobodys(name: object) -> None:
    """R9.1: a tenant or subject is 1 to 200 characters that can be shown."""
    assert _refused(_event(tenant_id=name)) == "unauthorized"
    assert _refused(_event(sub=name)) == "unauthorized"
    assert _refused(_event(), claim="another") == "unauthorized"


@given(claims=st.dictionaries(st.sampled_from(["sub", "tenant_id", "scope", "scp", "exp", "x"]), _JSON))
def test_whatever_the_claims_are_there_is_a_caller_or_a_refusal(claims: dict[str, object]) -> None:
    """R9.1: no claim makes anything fail, and nobody becomes a caller without a tenant and a subject."""
    event = {"requestContext": {"authorizer": {"jwt": {"claims": claims}}}}
    try:
        who = caller_of(event, tenant_claim="tenant_id")
    except Problem as refused:
        code = refused.code
    else:
        code = "unauthorized"
        assert (who.tenant_id, who.subject) == (claims["tenant_id"], claims["sub"])
    assert code == "unauthorized"


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"requestContext": {}},
        {"requestContext": {"authorizer": None}},
        {"requestContext": {"authorizer": {"jwt": None}}},
    ],
)
def test_without_the_authorizer_there_is_nobody(event: dict[str, object]) -> None:
    """R9.1: a request that no authorizer saw has no caller."""
    assert _refused(event) == "unauthorized"


def test_a_prefix_of_the_issuers_is_taken_off() -> None:
    """R9.1: Cognito names scopes after their server; of those, only what has the deployment's own prefix counts."""
    event = _event(scope="blsflow/schedule:read openid other/schedule:write schedule:admin")
    assert caller_of(event, tenant_claim="tenant_id", scope_prefix="blsflow/").scopes == {"schedule:read"}
    assert "schedule:read" not in caller_of(event, tenant_claim="tenant_id").scopes


@pytest.mark.parametrize(
    ("claims", "fits"),
    [
        ({}, True),
        ({"scope": "schedule:read openid"}, True),
        ({"scope": "schedule:read schedule:write"}, False),
        ({"scope": "schedule:read", "scp": ["schedule:admin"]}, False),
        ({"exp": str(int(time.time()) + LONGEST_IN_ADDRESS_SEC + 3600)}, False),
    ],
)
def test_a_token_in_an_address_is_good_for_little(claims: dict[str, object], fits: bool) -> None:  # noqa: FBT001 - a case
    """R9.3, R11.3: what proxies and histories keep reads for minutes, or is refused."""
    event = _event(**claims)
    caller = caller_of(event, tenant_claim="tenant_id")
    if fits:
        require_fit_for_address(event, caller)
        return
    with pytest.raises(Problem) as refused:
        require_fit_for_address(event, caller)
    assert refused.value.code == "unfit_token"
