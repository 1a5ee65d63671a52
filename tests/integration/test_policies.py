from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.policy import ExecutionMode
from blsflow.domain.policy_document import LIMITS
from blsflow.flow import control, policies
from blsflow.flow.control import UnknownPolicy
from blsflow.flow.policy_status import policy_status
from blsflow.flow.versions import VersionConflict
from tests.integration.policy_scenes import ACME, EVERY_MINUTE, RIVAL, change, create, document, make_world
from tests.integration.racing import at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.ports.store import Store
    from tests.integration.control_scenes import Who

WHO: Final[Who] = {"by": "kim", "why": "a test"}
TABLES = ("policy_groups", "policy_scopes", "policy_candidates", "policy_windows", "schedules", "log_events")


@pytest.fixture
def session(database: DatabaseAddress) -> Iterator[Session]:
    """A session behind the product's back, on a database with both tenants."""
    with closing(Session(database)) as opened:
        make_world(opened)
        yield opened


@pytest.fixture
def whole(database: DatabaseAddress, session: Session) -> Iterator[PostgresStore]:
    """The database as operators of the whole deployment see it."""
    assert session is not None
    opened = PostgresStore(lambda: Session(database))
    yield opened
    opened.close()


@pytest.fixture(params=["operator", "tenant"])
def store(whole: PostgresStore, request: pytest.FixtureRequest) -> Store:
    """The same use cases without and with the wall of row-level security."""
    return whole if request.param == "operator" else whole.of_tenant(ACME)


def rows(session: Session, sql: str) -> list[list[Any]]:
    """What is in the database."""
    return session.run(sql)


def counts(session: Session) -> list[int]:
    """How many rows each table has that policies are written to."""
    return [rows(session, f"select count(*) from smart_schedule_{name}")[0][0] for name in TABLES]


def events(session: Session, code: str) -> list[dict[str, Any]]:
    """The parameters of all log events of a code."""
    found = rows(session, f"select params from smart_schedule_log_events where code = '{code}' order by id")
    return [row[0] for row in found]


def test_a_new_policy_is_disabled_and_in_shadow(session: Session, store: Store) -> None:
    """R9.1: whatever a document says, a new policy neither ticks nor acts, and its schedule rests; it is on the record."""
    policy_id = create(store)
    view = policies.read_policy(store, policy_id, tenant_id=ACME)
    assert (view.enabled, view.execution_mode, view.version, view.frozen_for) == (False, "shadow", 1, None)
    assert (view.created_by, view.tenant_id, view.archived_at) == ("kim", ACME, None)
    assert rows(session, "select paused, created_by from smart_schedule_schedules") == [[True, "kim"]]
    assert events(session, "policy_created") == [{"by": "kim", "name": "guard", "execution_mode": "shadow"}]
    dry = policies.read_policy(store, create(store, execution_mode="dry_run"), tenant_id=ACME)
    assert dry.execution_mode == "dry_run"


def test_what_is_left_out_has_the_databases_defaults(session: Session, store: Store) -> None:
    """R9.1: the limits of a document without any are those that the table gives by itself."""
    view = policies.read_policy(store, create(store), tenant_id=ACME)
    session.run(
        "insert into smart_schedule_policy_groups (tenant_id, name, mode, created_by) values ('x', 'x', 'time_window', 'x')"
    )
    by_itself = rows(session, "select to_jsonb(p) from smart_schedule_policy_groups p where tenant_id = 'x'")[
        0
    ][0]
    assert {name: view.document[name] for name in LIMITS} == {name: by_itself[name] for name in LIMITS}
    assert (view.document["time_zone"], view.document["priority"]) == ("UTC", 0)
    assert view.document["schedule"] == EVERY_MINUTE | {
        "time_zone": "UTC",
        "anchor": "1970-01-01T00:00:00+00:00",
    }


def test_a_document_is_read_back_as_it_was_written(store: Store) -> None:
    """R9.1: scope, candidates in order, windows in order, limits and rule come back, and can be written again unchanged."""
    policy_id = create(
        store,
        name="夜间 windows",
        mode="time_window",
        time_zone="Europe/Berlin",
        priority=-3,
        max_move_share=0.25,
        max_benchmarks=0,
        candidates=[3, 1],
        scope=[
            {"resource_type": "machine", "resource_id": "103"},
            {"resource_type": "model", "resource_id": "S21"},
            {"resource_type": "cluster", "resource_id": "2"},
        ],
        windows=[
            {
                "starts": "22:00",
                "ends": "06:00",
                "action": "run_project",
                "project_id": 2,
                "weekdays": [5, 1],
            },
            {"starts": "06:00", "ends": "24:00", "action": "stop", "priority": 7},
        ],
        schedule={"kind": "cron", "expression": "*/5 * * * *"},
    )
    stored = dict(policies.read_policy(store, policy_id, tenant_id=ACME).document)
    assert [each["resource_type"] for each in stored["scope"]] == ["cluster", "model", "machine"]
    assert (stored["candidates"], stored["max_move_share"], stored["priority"]) == ([3, 1], 0.25, -3)
    assert [each["weekdays"] for each in stored["windows"]] == [[1, 5], None]
    assert stored["schedule"] == {
        "kind": "cron",
        "expression": "*/5 * * * *",
        "time_zone": "Europe/Berlin",
    }
    assert change(store, policy_id, 1, **stored) == 1


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"scope": [{"resource_type": "cluster", "resource_id": "9"}]}, "scope[0].resource_id"),
    ({"scope": [{"resource_type": "cluster", "resource_id": "4711"}]}, "scope[0].resource_id"),
    ({"scope": [{"resource_type": "machine", "resource_id": "901"}]}, "scope[0].resource_id"),
    ({"scope": [{"resource_type": "model", "resource_id": "X9"}]}, "scope[0].resource_id"),
    ({"candidates": [1, 9]}, "candidates[1]"),
    ({"candidates": [1, 4711]}, "candidates[1]"),
    (
        {"windows": [{"starts": "1:00", "ends": "2:00", "action": "start", "project_id": 9}]},
        "windows[0].project_id",
    ),
    ({"freeze_after_failures": 0}, "freeze_after_failures"),
    ({"execution_mode": "execute"}, "execution_mode"),
]


@pytest.mark.parametrize(("changes", "field"), REFUSED, ids=lambda each: str(each)[:60])
def test_a_refused_document_stores_nothing(
    session: Session, store: Store, changes: dict[str, Any], field: str
) -> None:
    """R9.1, R8.9: the field is named, another tenant's resource is as unknown as none, and nothing is written."""
    before = counts(session)
    with pytest.raises(InvalidDocument) as refused:
        create(store, **changes)
    assert refused.value.field == field
    assert counts(session) == before


def test_a_refused_change_changes_nothing(session: Session, store: Store) -> None:
    """R9.1: a policy stays as it was, at its version, when a document for it is refused."""
    policy_id = create(store)
    before, stored = counts(session), policies.read_policy(store, policy_id, tenant_id=ACME)
    for changes, _ in REFUSED:
        with pytest.raises(InvalidDocument):
            change(store, policy_id, 1, **changes)
    assert counts(session) == before
    assert policies.read_policy(store, policy_id, tenant_id=ACME) == stored


def test_a_change_is_a_new_version_on_the_record(session: Session, store: Store) -> None:
    """R9.1: the log says who changed which fields; what changes nothing makes no version and no event."""
    policy_id = create(store)
    assert change(store, policy_id, 1, min_dwell_sec=60, candidates=[2]) == 2
    assert events(session, "policy_changed") == [
        {"by": "lee", "version": 2, "changed": ["min_dwell_sec", "candidates"]}
    ]
    assert change(store, policy_id, 2, min_dwell_sec=60, candidates=[2]) == 2
    assert len(events(session, "policy_changed")) == 1


def test_a_version_that_has_moved_on_is_refused(store: Store) -> None:
    """R9.1: a change and an archiving name the version that was read; verbs make versions too."""
    policy_id = create(store)
    control.enable(store, policy_id, **WHO, tenant_id=ACME)
    with pytest.raises(VersionConflict) as conflict:
        change(store, policy_id, 1, priority=1)
    assert (conflict.value.version, conflict.value.current) == (1, 2)
    with pytest.raises(VersionConflict):
        policies.archive_policy(store, policy_id, version=1, **WHO, tenant_id=ACME)
    assert policies.read_policy(store, policy_id, tenant_id=ACME).archived_at is None


def test_of_two_changes_at_once_one_wins(database: DatabaseAddress, whole: PostgresStore) -> None:
    """R9.1: both name the version that they read; one is written whole, the other told."""
    policy_id = create(whole)
    conflicts: list[VersionConflict] = []

    def writer(priority: int, candidates: list[int]) -> None:
        with closing(PostgresStore(lambda: Session(database))) as own:
            try:
                change(own.of_tenant(ACME), policy_id, 1, priority=priority, candidates=candidates)
            except VersionConflict as conflict:
                conflicts.append(conflict)

    at_once(lambda: writer(1, [1]), lambda: writer(2, [2]))
    stored = policies.read_policy(whole, policy_id)
    assert len(conflicts) == 1
    priority = stored.document["priority"]
    assert priority in {1, 2}
    assert stored.document["candidates"] == [priority]
    assert stored.version == 2


def test_candidates_that_stay_keep_their_price_levels(session: Session, store: Store) -> None:
    """R2.1: a new order forgets no accepted level and no quarantine; who leaves and comes back starts anew."""
    policy_id = create(store, candidates=[1, 2])
    session.run(
        "update smart_schedule_policy_candidates set price_level = project_id, price_level_at = now(), "
        "price_pending_level = 10 * project_id, price_pending_since = now()"
    )
    levels = "select project_id, position, price_level, price_pending_level from smart_schedule_policy_candidates order by 2"
    change(store, policy_id, 1, candidates=[3, 2])
    assert rows(session, levels) == [[3, 0, None, None], [2, 1, 2.0, 20.0]]
    change(store, policy_id, 2, candidates=[1, 2, 3])
    assert rows(session, levels) == [[1, 0, None, None], [2, 1, 2.0, 20.0], [3, 2, None, None]]


def test_a_change_moves_the_cursor_only_with_the_rule(session: Session, store: Store) -> None:
    """R8.2: the rhythm stays unless the rule is another; then the next run is the new rule's own, from now."""
    policy_id = create(store, schedule=EVERY_MINUTE)
    session.run("update smart_schedule_schedules set next_run_at = '2020-01-01', broken = 'was wrong'")
    kept = "select next_run_at < now(), broken, version from smart_schedule_schedules"
    change(store, policy_id, 1, schedule=EVERY_MINUTE, priority=1)
    assert rows(session, kept) == [[True, "was wrong", 1]]
    change(store, policy_id, 2, schedule={"kind": "interval", "every_sec": 3600})
    assert rows(session, kept) == [[False, None, 2]]
    view = policies.read_policy(store, policy_id, tenant_id=ACME)
    assert view.next_run_at is not None
    assert view.next_run_at.minute == 0


def test_changing_lifts_no_freeze_and_enables_nothing(store: Store) -> None:
    """R6.3: only enabling lifts a freeze; mode and state are no part of a document."""
    policy_id = create(store)
    control.enable(store, policy_id, **WHO, tenant_id=ACME)
    control.set_mode(store, policy_id, ExecutionMode.EXECUTE, **WHO, tenant_id=ACME)
    control.freeze(store, policy_id, **WHO, tenant_id=ACME)
    change(store, policy_id, 3, priority=5)
    view = policies.read_policy(store, policy_id, tenant_id=ACME)
    assert (view.enabled, view.execution_mode, view.frozen_for) == (True, "execute", "manual")
    status = policy_status(store, policy_id, tenant_id=ACME)
    assert status.freeze is not None
    assert (status.freeze.cause, status.freeze.detail, status.freeze.frozen_by) == (
        "manual", {"why": "a test"}, "kim",
    )  # fmt: skip


def test_an_archived_policy_is_out_of_use_and_on_the_record(session: Session, store: Store) -> None:
    """R9.1: it is disabled with its schedule, listed only if asked for, still readable, and nothing changes it any more."""
    policy_id = create(store, schedule={"kind": "interval", "every_sec": 300})
    policies.archive_policy(store, policy_id, version=1, **WHO, tenant_id=ACME)
    view = policies.read_policy(store, policy_id, tenant_id=ACME)
    assert (view.enabled, view.archived_at is not None, view.document["schedule"]["every_sec"]) == (
        False,
        True,
        300,
    )
    assert events(session, "policy_archived") == [{**WHO, "name": "guard", "version": 2}]
    assert rows(session, "select paused, archived_at is not null from smart_schedule_schedules") == [
        [True, True]
    ]
    assert policies.list_policies(store, tenant_id=ACME)[0] == []
    assert policies.list_policies(store, tenant_id=ACME, include_archived=True)[0] == [
        replace(view, document={name: said for name, said in view.document.items() if name != "scope"})
    ]
    with pytest.raises(UnknownPolicy):
        change(store, policy_id, 2, priority=1)
    with pytest.raises(UnknownPolicy):
        policies.archive_policy(store, policy_id, version=2, **WHO, tenant_id=ACME)
    with pytest.raises(UnknownPolicy):
        policy_status(store, policy_id, tenant_id=ACME)


@pytest.mark.parametrize("why", ["", "  ", "x" * 2001, "nul\0"])
def test_archiving_says_why(store: Store, why: str) -> None:
    """R9.1: an archiving without a reason that can be kept is none."""
    policy_id = create(store)
    with pytest.raises(InvalidDocument) as refused:
        policies.archive_policy(store, policy_id, version=1, by="kim", why=why, tenant_id=ACME)
    assert refused.value.field == "why"
    assert policies.read_policy(store, policy_id, tenant_id=ACME).archived_at is None


def test_pages_of_policies_neither_repeat_nor_lose_one(store: Store) -> None:
    """R8.12: pages by id, with an opaque cursor; anything else is refused as one."""
    made = [create(store, name=f"p{place}") for place in range(5)]
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page, cursor = policies.list_policies(store, tenant_id=ACME, cursor=cursor, limit=2)
        seen += [each.policy_id for each in page]
        if cursor is None:
            break
    assert seen == made
    for wrong in ("x", "W10", "WyJhIl0", "bnVsbA"):
        with pytest.raises(InvalidDocument):
            policies.list_policies(store, tenant_id=ACME, cursor=wrong)
    for limit in (0, 501):
        with pytest.raises(InvalidDocument):
            policies.list_policies(store, tenant_id=ACME, limit=limit)


def test_freezes_are_told_newest_first_with_who_lifted_them(store: Store) -> None:
    """R6.3: each freeze of a policy with its cause, by whom, and who lifted it and why."""
    policy_id = create(store)
    for round_no in range(3):
        control.freeze(store, policy_id, by="kim", why=f"look {round_no}", tenant_id=ACME)
        if round_no < 2:
            control.enable(store, policy_id, by="lee", why=f"fine {round_no}", tenant_id=ACME)
    first, cursor = policies.freezes(store, policy_id, tenant_id=ACME, limit=2)
    last, end = policies.freezes(store, policy_id, tenant_id=ACME, cursor=cursor, limit=2)
    told = [
        (each.cause, each.detail["why"], each.frozen_by, each.lifted_by, each.lift_reason)
        for each in (*first, *last)
    ]
    assert told == [
        ("manual", "look 2", "kim", None, None),
        ("manual", "look 1", "kim", "lee", "fine 1"),
        ("manual", "look 0", "kim", "lee", "fine 0"),
    ]
    assert end is None


def test_nobody_sees_or_moves_a_policy_of_somebody_else(whole: PostgresStore, session: Session) -> None:
    """R8.9: to another tenant a policy is as unknown as none, by either wall alone, and nothing is written."""
    policy_id = create(whole)
    control.freeze(whole, policy_id, **WHO)
    before = counts(session)
    walls: list[tuple[Store, str | None]] = [
        (whole, RIVAL),
        (whole.of_tenant(RIVAL), ACME),
        (whole.of_tenant(RIVAL), None),
        (whole.of_tenant(""), None),
    ]
    for other, claimed in walls:
        attempts: list[Callable[[], object]] = [
            partial(policies.read_policy, other, policy_id, tenant_id=claimed),
            partial(change, other, policy_id, 1, tenant_id=claimed, priority=1),
            partial(policies.archive_policy, other, policy_id, version=1, **WHO, tenant_id=claimed),
            partial(policies.freezes, other, policy_id, tenant_id=claimed),
            partial(policy_status, other, policy_id, tenant_id=claimed),
        ]
        for attempt in attempts:
            with pytest.raises(UnknownPolicy):
                attempt()
        assert policies.list_policies(other, tenant_id=claimed or RIVAL)[0] == []
    assert counts(session) == before


def test_a_caller_may_record_more_in_the_same_transaction(whole: PostgresStore, session: Session) -> None:
    """R9.1: what fails after the policy was written takes it along."""
    before = counts(session)

    def fails() -> None:
        with whole.of_tenant(ACME).transaction() as tx:
            policies.create_policy_in(tx, tenant_id=ACME, by="kim", document=document(), tick_interval_sec=60)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert counts(session) == before
