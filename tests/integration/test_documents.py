"""Malformed rows of a real database, read as a tick reads them: each is held against its own cluster or policy only."""

from __future__ import annotations

import contextlib
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.gates import Gates
from blsflow.domain.tariff import TariffPrice, price_in_force

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.adapters.postgres.transaction import PostgresTransaction
    from blsflow.domain.inputs import ClusterInput, TickInputs

GATES = Gates(execute_enabled=False, executor_configured=False, holder="blsflow")
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
BAD, GOOD = 1, 2

_UNCHECKED = (
    "alter table smart_schedule_policy_groups drop constraint smart_schedule_policy_groups_{}_check; "
)
_SCENE = """
insert into clusters values (1, 't', 'bad', 'UTC'), (2, 't', 'good', 'UTC');
insert into cluster_tariffs (id, cluster_id, name) values (1, 1, 'one'), (2, 2, 'two');
insert into cluster_tariff_periods (id, tariff_id, name, starts, ends, price_per_kwh)
    values (1, 1, 'flat', '00:00', '24:00', 0.3), (2, 2, 'flat', '00:00', '24:00', 0.4);
insert into machine_models values ('S21', 'SHA-256', 2e14, 3500);
insert into machines values (1, 't', 1, 'S21', 'a', false), (2, 't', 2, 'S21', 'b', false);
insert into smart_schedule_policy_groups (tenant_id, name, mode, enabled, created_by)
    values ('t', 'bad', 'time_window', true, 'test'), ('t', 'good', 'profit_guard', true, 'test'),
           ('t', 'other', 'profit_guard', true, 'test');
insert into smart_schedule_policy_scopes select id, 'tenant', '*' from smart_schedule_policy_groups;
insert into smart_schedule_policy_windows (policy_id, starts, ends, action) values (1, '08:00', '09:00', 'stop');
"""


@pytest.fixture
def tx(scene: PostgresStore) -> Iterator[PostgresTransaction]:
    """A transaction that is undone."""
    with contextlib.suppress(_Undone), scene.transaction() as opened:
        yield opened
        raise _Undone


class _Undone(Exception):
    pass


@pytest.fixture(scope="module")
def scene(module_database: DatabaseAddress) -> Iterator[PostgresStore]:
    """Two clusters with a price each, and three policies over both."""
    with closing(Session(module_database)) as session:
        session.run(_SCENE)
    store = PostgresStore(lambda: Session(module_database))
    yield store
    store.close()


def inputs(tx: PostgresTransaction) -> TickInputs:
    """What a tick of the good policy reads."""
    trial = tx.begin_trial(GOOD, GATES, tenant_id=None)
    assert trial is not None
    return tx.tick_inputs(trial.tick)


def price(cluster: ClusterInput) -> float | None:
    """The cluster's price, None if it is not known."""
    found = price_in_force(cluster.tariffs, NOW)
    return found.price_cny_per_kwh if isinstance(found, TariffPrice) else None


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("update clusters set time_zone = 'Mars/Base' where id = 1", "zone"),
        ("update clusters set time_zone = '' where id = 1", "zone"),
        ("update clusters set time_zone = '../../etc/passwd' where id = 1", "zone"),
        ("update cluster_tariff_periods set starts = '25:00' where id = 1", "starts"),
        ("update cluster_tariff_periods set ends = 'noon' where id = 1", "ends"),
        ("update cluster_tariff_periods set ends = '8' where id = 1", "ends"),
        ("update cluster_tariff_periods set price_per_kwh = 'NaN' where id = 1", "price_per_kwh"),
        ("update cluster_tariff_periods set price_per_kwh = 'Infinity' where id = 1", "price_per_kwh"),
        ("update cluster_tariff_periods set price_per_kwh = 1e400::numeric where id = 1", "tariff"),
        ("update cluster_tariff_periods set weekdays = '{0}' where id = 1", "weekdays"),
        ("update cluster_tariff_periods set weekdays = '{null}' where id = 1", "weekdays"),
        ("update cluster_tariff_periods set weekdays = '{{1,2},{3,4}}' where id = 1", "tariff"),
        ("update cluster_tariff_periods set months = '{13}' where id = 1", "months"),
        ("update cluster_tariff_periods set day_types = '{sunday}' where id = 1", "day_types"),
        ("update cluster_tariff_periods set season_start = '02-30', season_end = '03-01' where id = 1", "season.first"),
        ("update cluster_tariff_periods set season_start = 'March', season_end = '03-01' where id = 1", "season"),
        ("update cluster_tariff_periods set season_start = '1-2-3', season_end = '03-01' where id = 1", "season"),
        ("update cluster_tariff_periods set season_start = '03-01' where id = 1", "season"),
        ("update cluster_tariff_periods set season_end = '03-01' where id = 1", "season"),
        ("update cluster_tariff_periods set name = '' where id = 1", "name"),
        ("update cluster_tariffs set holidays = '{infinity}' where id = 1", "tariff"),
        ("update cluster_tariffs set holidays = '{\"0044-03-15 BC\"}' where id = 1", "tariff"),
        ("update cluster_tariffs set holidays = '{null}' where id = 1", "tariff"),
        ("update cluster_tariffs set holidays = '{2026-05-01}', make_up_workdays = '{2026-05-01}' where id = 1",
         "make_up_workdays"),
        ("update cluster_tariffs set valid_from = 'infinity' where id = 1", "tariff"),
        ("update cluster_tariffs set valid_from = '2027-01-01', valid_to = '2027-01-01' where id = 1", "valid_to"),
    ],
)  # fmt: skip
def test_a_malformed_tariff_makes_only_its_own_price_unknown(
    tx: PostgresTransaction, statement: str, fault: str
) -> None:
    """R2.2: a row that cannot be meant is told of by its field and leaves its cluster without a price, and no other."""
    tx._session.run(statement)
    bad, good = inputs(tx).clusters
    assert bad.fault is not None
    assert bad.fault.split(":")[0] == fault
    assert price(bad) is None
    assert good.fault is None
    assert price(good) == 0.4


@pytest.mark.parametrize(
    "statement",
    [
        "update cluster_tariffs set valid_to = 'infinity', valid_from = '-infinity' where id = 1",
        "update cluster_tariff_periods set season_start = '02-29', season_end = '02-28' where id = 1",
        "update cluster_tariff_periods set starts = '7:30', ends = '7:30' where id = 1",
    ],
)
def test_unusual_rows_that_can_be_meant_are_read(tx: PostgresTransaction, statement: str) -> None:
    """R2.2: an infinite validity is an open one, a season may begin on a leap day, and equal bounds are the whole day."""
    tx._session.run(statement)
    assert [price(cluster) for cluster in inputs(tx).clusters] == [0.3, 0.4]


@pytest.mark.parametrize(
    "statement",
    [
        "update smart_schedule_policy_groups set time_zone = 'Mars/Base' where id = 1",
        "update smart_schedule_policy_windows set starts = '25:00'",
        "update smart_schedule_policy_windows set ends = 'late'",
        "update smart_schedule_policy_windows set weekdays = '{8}'",
        "update smart_schedule_policy_windows set weekdays = '{null}'",
        "update smart_schedule_policy_windows set weekdays = '{{1,2},{3,4}}'",
        "insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (1, -1, 0)",
        _UNCHECKED.format("mode")
        + "update smart_schedule_policy_groups set mode = 'clairvoyant' where id = 1",
        _UNCHECKED.format("min_gain_ratio")
        + "update smart_schedule_policy_groups set min_gain_ratio = 'NaN' where id = 1",
    ],
)
def test_a_malformed_policy_is_refused_by_its_own_ticks_only(tx: PostgresTransaction, statement: str) -> None:
    """R3.6: a policy that cannot be meant outranks nobody and stops no other policy's tick; its own says what is wrong."""
    tx._session.run(statement)
    with pytest.raises(InvalidDocument):
        tx.begin_trial(BAD, GATES, tenant_id=None)
    others = {other.policy.id for other in inputs(tx).others}
    assert 3 in others
    assert "candidates" in statement or BAD not in others


@pytest.mark.parametrize("figure", ["NaN", "Infinity", "-Infinity"])
def test_a_nameplate_that_is_no_number_is_not_known(tx: PostgresTransaction, figure: str) -> None:
    """R2.3: a model whose nameplate is no finite figure has none; ticks over its machines go on."""
    tx._session.run(f"update machine_models set nameplate_power_w = '{figure}'")
    for each in inputs(tx).classes:
        assert each.nameplate_power_w is None
        assert each.nameplate_hashrate_hs == 2e14


@pytest.mark.parametrize(
    ("statement", "known"),
    [
        ("'NaN'", False),
        ("'Infinity'", False),
        ("null", False),
        ("1.5e-10", True),
    ],
)
def test_a_reading_that_is_no_number_is_no_price(
    tx: PostgresTransaction, statement: str, *, known: bool
) -> None:
    """R2.1: a revenue that is no finite number never becomes 0 or another price on its way."""
    tx._session.run(
        "insert into projects values (1, 't', 'coin', 'A', ' a ', 'SHA-256');"
        "insert into smart_schedule_profit_readings (price_key, taken_at, received_at, source, revenue, unit, currency)"
        f" values ('A', now(), now(), 'test', {statement}, 'H/s', 'USDT')"
    )
    raw = inputs(tx).projects[0].raw
    assert raw is not None
    assert (raw.revenue == raw.revenue) is known


def test_a_policy_that_became_malformed_does_not_stop_settling(tx: PostgresTransaction) -> None:
    """R5.7: what was sent for a policy whose zone is none any more is settled with all others, and theirs are judged."""
    tx._session.run(
        "insert into smart_schedule_attempts (id, tenant_id, kind, idempotency_key, policy_id, action, state, prepared_at,"
        " valid_until, dispatched_at, ended_at) select gen_random_uuid(), 't', 'device_batch', 'k' || p, p, 'stop',"
        " 'failed', now(), now(), now(), now() from generate_series(1, 2) p;"
        "insert into smart_schedule_attempt_machines (attempt_id, machine_id, fencing_token, state, ended_at)"
        " select id, policy_id, 1, 'failed', now() from smart_schedule_attempts;"
        "update smart_schedule_policy_groups set time_zone = 'Mars/Base' where id = 1"
    )
    assert [(share.policy.id, share.failed) for share in tx.failed_shares([BAD, GOOD])] == [(GOOD, 1)]
