from __future__ import annotations

import json
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.policy_document import FIGURES, LIMITS, parse_policy
from blsflow.flow import policies
from tests.integration.policy_scenes import ACME, make_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

TABLES = ("policy_groups", "policy_scopes", "policy_candidates", "policy_windows", "schedules", "log_events")
EDGES = [-1, 0, 1, 2, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**400]
numbers = st.one_of(st.sampled_from(EDGES), st.integers(), st.integers(min_value=1, max_value=10_000))
figures = st.one_of(numbers, st.floats(), st.floats(min_value=0, max_value=5))
junk = st.one_of(
    st.none(), st.booleans(), st.text(max_size=5), numbers, st.floats(), st.lists(st.integers(), max_size=2)
)
clocks = st.one_of(
    st.builds("{:02}:{:02}".format, st.integers(0, 25), st.integers(0, 61)),
    st.sampled_from(["24:00", "7:05:09", "x"]),
)
resources = st.sampled_from(
    [("tenant", "*"), ("cluster", "1"), ("cluster", "2"), ("model", "S21"), ("machine", "101"), ("machine", "103"),
     ("cluster", "9"), ("machine", "901"), ("machine", "007"), ("tenant", "1"), ("site", "1"), ("model", "\x00")]
)  # fmt: skip
projects = st.sampled_from([1, 2, 3, 1, 2, 3, 9, 0])
windows = st.fixed_dictionaries(
    {
        "starts": clocks,
        "ends": clocks,
        "action": st.sampled_from(["run_project", "stop", "power_off", "start"]),
    },
    optional={
        "priority": numbers,
        "weekdays": st.one_of(st.none(), st.lists(st.integers(0, 8), max_size=4)),
        "project_id": st.one_of(st.none(), projects),
    },
)
days = st.lists(st.integers(0, 8), max_size=3)
rules = st.one_of(
    st.fixed_dictionaries({"kind": st.just("interval"), "every_sec": numbers}),
    st.fixed_dictionaries({"kind": st.just("daily"), "time_of_day": clocks}),
    st.fixed_dictionaries({"kind": st.just("weekly"), "time_of_day": clocks, "weekdays": days}),
    st.fixed_dictionaries({"kind": st.just("once"), "at": st.datetimes().map(lambda at: at.isoformat())}),
    st.fixed_dictionaries({"kind": st.just("cron"), "expression": st.sampled_from(["*/5 * * * *", "0 0 29 2 *", "x"])}),
)  # fmt: skip
actions = st.sampled_from(["keep", "stop", "power_off", "burn"])
limits: dict[str, st.SearchStrategy[Any]] = {
    name: figures if name in FIGURES else actions if isinstance(default, str) else numbers
    for name, default in LIMITS.items()
}
zones = st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin", "Mars/Olympus", "../etc"])


def sane(document: dict[str, Any], keep: set[str]) -> dict[str, Any]:
    """Leave out the fields that are not to be kept, so that most documents have few chances to be refused."""
    return {name: value for name, value in document.items() if name in keep}


documents = st.builds(
    sane,
    st.fixed_dictionaries(
        {
            "name": st.one_of(st.text(max_size=205), st.just("guard")),
            "mode": st.sampled_from(["profit_guard", "time_window"]),
            "time_zone": zones,
            "priority": numbers,
            "scope": st.lists(
                st.builds(
                    lambda pair: dict(zip(("resource_type", "resource_id"), pair, strict=True)), resources
                ),
                min_size=1,
                max_size=3,
            ),
            "candidates": st.lists(projects, max_size=3),
            "windows": st.lists(windows, max_size=2),
            "schedule": rules,
            **limits,
        }
    ),
    st.sets(
        st.sampled_from(["time_zone", "priority", "candidates", "windows", "schedule", *LIMITS]), max_size=4
    ).map(lambda kept: kept | {"name", "mode", "scope"}),
)


@pytest.fixture(scope="module")
def store(module_database: DatabaseAddress) -> Iterator[PostgresStore]:
    """A database with two tenants."""
    with closing(Session(module_database)) as session:
        make_world(session)
    with closing(PostgresStore(lambda: Session(module_database))) as opened:
        yield opened


def counts(store: PostgresStore) -> list[int]:
    """How many rows each table has that policies are written to."""
    with store.transaction() as tx:
        return [tx._session.run(f"select count(*) from smart_schedule_{name}")[0][0] for name in TABLES]


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=documents, second=documents)
def test_what_validates_is_stored_and_read_back_equal_and_nothing_else_is(
    store: PostgresStore, document: dict[str, Any], second: dict[str, Any]
) -> None:
    """R9.1: created or changed, a document comes back in its one form; one that is refused changes nothing at all."""
    tenant = store.of_tenant(ACME)
    before = counts(store)
    try:
        made = policies.create_policy(
            tenant, tenant_id=ACME, by="kim", document=document, tick_interval_sec=60
        )
    except InvalidDocument:
        assert counts(store) == before
        return
    event("stored")
    view = policies.read_policy(tenant, made.policy_id, tenant_id=ACME)
    assert view.document == parse_policy(document, tick_interval_sec=60).to_document()
    assert (
        parse_policy(json.loads(json.dumps(view.document)), tick_interval_sec=60).to_document()
        == view.document
    )
    before = counts(store)
    try:
        policies.change_policy(
            tenant, made.policy_id, version=1, by="lee", document=second, tick_interval_sec=60, tenant_id=ACME
        )
    except InvalidDocument:
        assert counts(store) == before
        assert policies.read_policy(tenant, made.policy_id, tenant_id=ACME) == view
    else:
        event("changed")
        after = policies.read_policy(tenant, made.policy_id, tenant_id=ACME)
        assert after.document == parse_policy(second, tick_interval_sec=60).to_document()


@given(
    document=st.one_of(
        documents, st.dictionaries(st.sampled_from(["name", "mode", "scope", "windows", *LIMITS, "x"]), junk)
    )
)
def test_whatever_comes_is_read_or_refused_by_name(document: dict[str, Any]) -> None:
    """R9.1: no document raises anything but a refusal, and reading is idempotent."""
    with suppress(InvalidDocument):
        parsed = parse_policy(document, tick_interval_sec=60)
        assert parse_policy(parsed.to_document(), tick_interval_sec=60) == parsed
