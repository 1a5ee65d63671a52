from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.replay_ledger import TooMuchToReplay
from blsflow.flow.backtest import Backtest, backtest
from blsflow.flow.control import UnknownPolicy
from tests.integration.counting import counting_store
from tests.integration.scene import HASHRATE_HS, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

MACHINES = 3
SINCE = datetime(2026, 7, 1, tzinfo=UTC)
UNTIL = SINCE + timedelta(days=1)
HALF_HOUR = timedelta(minutes=30)


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Three machines on coin A, and a day of July of which prices and a tariff that has ended are on record."""
    with Scene(database, machines=MACHINES) as opened:
        opened.session.run(
            """
            update cluster_tariffs set valid_from = '2026-08-01';
            insert into cluster_tariffs (id, cluster_id, name, valid_to) values (2, 1, 'old', '2026-08-01');
            insert into cluster_tariff_periods (id, tariff_id, name, starts, ends, price_per_kwh) values
                (2, 2, 'night', '20:00', '08:00', 0.2), (3, 2, 'day', '08:00', '20:00', 0.5);
            """
        )
        yield opened


def prices(scene: Scene, project: str, cny_per_day: float, *, hours: tuple[int, int] = (0, 24)) -> None:
    """Record what a machine made a day with a project, every five minutes of those hours."""
    scene.session.run(
        f"""insert into smart_schedule_profit_readings
            select '{project}', 'SHA-256', at, at, 'test', '{cny_per_day / HASHRATE_HS!r}', 'H/s', 'USDT', '{{}}'
            from generate_series('{SINCE}'::timestamptz + interval '{hours[0]} hours',
                                 '{SINCE}'::timestamptz + interval '{hours[1]} hours' - interval '1 second',
                                 interval '5 minutes') at"""
    )


def tried(store: Any, **changes: Any) -> Backtest:
    """The day in steps of half an hour, at a rate of 1."""
    plain: dict[str, Any] = {"since": SINCE, "until": UNTIL, "step": HALF_HOUR, "rate": 1.0}
    return backtest(store, 1, **plain | changes)


def test_recorded_prices_and_a_tariff_that_has_ended_decide_and_value(scene: Scene) -> None:
    """R4.6: A makes 50 throughout, B 40 and from 12:00 UTC on 90; Shanghai's dear hours are 00:00 to 12:00 UTC."""
    prices(scene, "A", 50.0)
    prices(scene, "B", 40.0, hours=(0, 12))
    prices(scene, "B", 90.0, hours=(12, 24))
    told: list[float] = []
    found = tried(scene.app.store, progress=told.append)
    replayed = found.backtested.replayed
    electricity = 12 * 3 * 0.5 + 12 * 3 * 0.2
    assert replayed.moves == {"switch": MACHINES}
    assert replayed.as_is_cny == pytest.approx(MACHINES * (50 - electricity))
    assert replayed.policy_cny == pytest.approx(MACHINES * (25 + 45 - 90 / 1440 - electricity))
    assert replayed.known_hours == pytest.approx(MACHINES * 24)
    assert told == pytest.approx([step / 48 for step in range(1, 49)])
    spans = found.document()["tariff_spans"][0]["spans"]
    assert [span["price_cny_per_kwh"] for span in spans] == [0.5, 0.2]
    assert scene.value("select count(*) from smart_schedule_ticks") == 0


def test_what_was_not_recorded_is_unknown(scene: Scene) -> None:
    """R4.6, R2.1: a feed that is silent after 05:55 is still fresh at 06:00, then unknown; a missing rate leaves all so."""
    prices(scene, "A", 50.0, hours=(0, 6))
    prices(scene, "A", 50.0, hours=(9, 24))
    replayed = tried(scene.app.store).backtested.replayed
    assert replayed.unknown_hours == {"price_stale": pytest.approx(MACHINES * 2.5)}
    blind = tried(scene.app.store, rate=None).backtested.replayed
    assert blind.gain_cny is None
    assert blind.unknown_hours == {"price_unknown": pytest.approx(MACHINES * 24)}


def test_a_newer_price_that_cannot_be_used_hides_an_older_one(scene: Scene) -> None:
    """R4.6, R2.1: as in a tick the newest reading counts: a sentinel makes the price unknown."""
    prices(scene, "A", 50.0)
    scene.session.run(
        "update smart_schedule_profit_readings set revenue = -1"
        f" where price_key = 'A' and received_at = '{SINCE + HALF_HOUR}'"
    )
    replayed = tried(scene.app.store).backtested.replayed
    assert replayed.unknown_hours == {"price_unknown": pytest.approx(MACHINES / 2)}


def test_an_offline_machine_is_unknown_and_the_others_are_not(scene: Scene) -> None:
    """R4.6, R2.4: its hours are unknown ones."""
    prices(scene, "A", 50.0)
    scene.session.run(
        "update machine_mining_runtime set reported_at = now() - interval '1 day' where machine_id = 2"
    )
    replayed = tried(scene.app.store).backtested.replayed
    assert replayed.unknown_hours == {"offline": pytest.approx(24)}
    assert replayed.known_hours == pytest.approx((MACHINES - 1) * 24)


def test_a_backtest_sees_only_its_tenant_and_leaves_no_trace(scene: Scene) -> None:
    """R4.6, R8.9: another tenant's policy is as unknown as none, by both walls; its own may be tried as itself."""
    prices(scene, "A", 50.0)
    for store, tenant in ((scene.app.store, "other"), (scene.app.store.of_tenant("other"), None)):
        with pytest.raises(UnknownPolicy):
            tried(store, tenant_id=tenant)
    own = tried(scene.app.store.of_tenant("acme"), tenant_id="acme")
    assert own.backtested.replayed.known_hours == pytest.approx(MACHINES * 24)


def test_what_cannot_be_tried_is_refused(scene: Scene) -> None:
    """R4.6: a period backwards, no step, and more than may be decided at once, each by its name."""
    with pytest.raises(InvalidDocument, match="until"):
        tried(scene.app.store, until=SINCE)
    with pytest.raises(InvalidDocument, match="step_sec"):
        tried(scene.app.store, step=timedelta(0))
    with pytest.raises(TooMuchToReplay, match="3 machines at 48 instants") as refusal:
        tried(scene.app.store, limit=100)
    assert refusal.value.machines == MACHINES


def test_a_backtests_round_trips_do_not_depend_on_the_fleet(scene: Scene) -> None:
    """R4.6: three machines or two thousand are read by the same few exchanges, and prices by the page."""
    prices(scene, "A", 50.0)
    counts = []
    for more in (0, 2000):
        scene.session.run(
            f"insert into machines select g, 'acme', 1, 'S21', 'm' || g, false from generate_series(4, {more}) g;"
            f"insert into machine_mining_runtime select g, 'mining', 1, 1e14, now(), now() from generate_series(4, {more}) g"
        )
        store, exchanges = counting_store(scene.address)
        found = tried(store, step=timedelta(hours=2))
        store.close()
        assert found.backtested.replayed.machines == max(more, MACHINES)
        counts.append(exchanges)
    assert counts[0] == counts[1]
    assert sum(counts[1].values()) < 10
