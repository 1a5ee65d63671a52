from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.replay_ledger import TooMuchToReplay
from blsflow.flow.control import UnknownPolicy
from blsflow.flow.report import report
from tests.integration.counting import counting_store
from tests.integration.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blsflow.adapters.postgres.address import DatabaseAddress

MACHINES = 3
TEN_MINUTES = 600
AN_HOUR = 61 / 1440
"""In days, with a minute for what the test itself takes."""
POWER_CNY_PER_DAY = 3 * 24 * 0.3


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """A policy in shadow over three machines on coin A, whose telemetry never changes."""
    with Scene(database, machines=MACHINES) as opened:
        opened.session.run("update smart_schedule_policy_groups set execution_mode = 'shadow'")
        yield opened


def tick(scene: Scene, prices: Sequence[tuple[float, float] | None], *, telemetry: str | None = None) -> None:
    """Let a policy tick at one pair of prices after the other (None: the feed is silent), ten minutes apart.

    Machines report what they do before each; ``telemetry`` is a statement that has them report something else.
    """
    for pair in prices:
        if pair is not None:
            scene.prices(*pair)
        scene.report()
        if telemetry is not None:
            scene.session.run(telemetry)
        decide(scene)
        scene.forward(TEN_MINUTES)


def decide(scene: Scene) -> None:
    """Have the policy decide now."""
    scene.due()
    scene.tick()
    scene.decide()


def test_a_gain_is_counted_once_however_often_shadow_finds_it(scene: Scene) -> None:
    """R4.5: every tick finds the same switch, for real machines stay where they are; it would have been made once."""
    tick(scene, [(50.0, 80.0)] * 6)
    assert scene.value("select count(*) from smart_schedule_machine_decisions where action = 'switch'") == 18
    found = report(scene.app.store, 1, days=AN_HOUR)
    replayed = found.replayed
    assert replayed.moves == {"switch": MACHINES}
    assert found.ticks_by_mode == {"shadow": 6}
    assert (found.name, found.policy_versions, replayed.machines) == ("guard", (1,), MACHINES)
    hours = replayed.known_hours
    assert hours == pytest.approx(MACHINES * 1.0, rel=0.01)
    lost = MACHINES * 80.0 * 60 / 86_400
    assert replayed.switch_cost_cny == pytest.approx(lost)
    assert replayed.as_is_cny == pytest.approx(hours / 24 * (50.0 - POWER_CNY_PER_DAY))
    assert replayed.always_on_cny == pytest.approx(replayed.as_is_cny)
    assert replayed.gain_cny == pytest.approx(hours / 24 * 30.0 - lost)


def test_the_past_is_valued_at_the_prices_and_the_tariff_of_its_time(scene: Scene) -> None:
    """R4.5: the tariff of today, today's benchmarks and today's prices change no figure of yesterday."""
    tick(scene, [(50.0, 40.0)] * 3)
    before = report(scene.app.store, 1, days=AN_HOUR).replayed
    scene.session.run(
        "update cluster_tariff_periods set price_per_kwh = 99;"
        "update smart_schedule_machine_project_benchmarks set hashrate_hs = 1; delete from smart_schedule_profit_readings"
    )
    after = report(scene.app.store, 1, days=AN_HOUR).replayed
    assert not before.moves
    # the last tick speaks for longer while the clock moves on: compare what an hour nets
    assert after.as_is_cny / after.known_hours == pytest.approx(before.as_is_cny / before.known_hours)
    assert after.as_is_cny / after.known_hours == pytest.approx((50.0 - POWER_CNY_PER_DAY) / 24)


def test_hours_without_ticks_are_unknown(scene: Scene) -> None:
    """R4.5: two hours of silence are not two hours without gain; the tick before them speaks for twenty minutes."""
    tick(scene, [(50.0, 40.0)] * 3)
    scene.forward(7200 - TEN_MINUTES)
    tick(scene, [(50.0, 40.0)] * 3)
    replayed = report(scene.app.store, 1, days=181 / 1440).replayed
    assert replayed.known_hours == pytest.approx(MACHINES * (20 + 20 + 20 + 10) / 60, rel=0.02)
    assert replayed.known_hours + sum(replayed.unknown_hours.values()) == pytest.approx(
        MACHINES * 3, rel=0.01
    )
    assert set(replayed.unknown_hours) == {"no_tick"}


def test_unknown_prices_and_silent_machines_count_on_no_path(scene: Scene) -> None:
    """R4.5, R2.1, R2.4: ten minutes without coin A's price and one machine that is silent throughout."""
    tick(scene, [(50.0, 40.0), None])
    silent = "update machine_mining_runtime set reported_at = now() - interval '1 hour' where machine_id = 3"
    tick(scene, [(50.0, 40.0)], telemetry=silent)
    replayed = report(scene.app.store, 1, days=31 / 1440).replayed
    assert replayed.unknown_hours["price_stale"] == pytest.approx(MACHINES / 6, rel=0.02)
    assert replayed.unknown_hours["offline"] == pytest.approx(1 / 6, rel=0.02)
    assert replayed.known_hours == pytest.approx((MACHINES + 2) / 6, rel=0.02)


def test_a_machine_that_a_human_stopped_earns_nothing_on_any_path(scene: Scene) -> None:
    """R4.5: what nobody could have mined is credited to nobody, and taken up again when the machine is back."""
    tick(scene, [(50.0, 80.0)] * 2)
    stopped = "update machine_mining_runtime set status = 'stopped', hashrate_hs = 0"
    tick(scene, [(50.0, 80.0)] * 2, telemetry=stopped)
    tick(scene, [(50.0, 80.0)] * 2)
    replayed = report(scene.app.store, 1, days=AN_HOUR).replayed
    assert replayed.moves == {"switch": MACHINES}
    mined = MACHINES * 40 / 60 / 24
    assert replayed.always_on_cny == pytest.approx(mined * (50.0 - POWER_CNY_PER_DAY), rel=0.01)
    lost = MACHINES * 80.0 * 60 / 86_400
    assert replayed.policy_cny == pytest.approx(mined * (80.0 - POWER_CNY_PER_DAY) - lost, rel=0.01)


def test_a_policy_of_another_tenant_is_unknown(scene: Scene) -> None:
    """R4.5, R8.9: neither the statement nor the row-level security shows it."""
    tick(scene, [(50.0, 80.0)])
    for store, tenant in ((scene.app.store, "other"), (scene.app.store.of_tenant("other"), None)):
        with pytest.raises(UnknownPolicy):
            report(store, 1, days=1, tenant_id=tenant)
    own = report(scene.app.store.of_tenant("acme"), 1, days=1, tenant_id="acme")
    assert own.replayed.moves == {"switch": MACHINES}


def test_a_report_of_nothing_knows_nothing(scene: Scene) -> None:
    """R4.5: without ticks there is no gain of 0, and days that cannot be meant are refused."""
    found = report(scene.app.store, 1, days=1)
    assert found.replayed.gain_cny is None
    assert found.ticks_by_mode == {}
    assert found.document()["series"] == []
    for days in (0, -1, 367, float("nan")):
        with pytest.raises(InvalidDocument):
            report(scene.app.store, 1, days=days)


def test_too_many_ticks_are_refused_and_may_be_thinned(scene: Scene) -> None:
    """R4.5: the refusal names fewer days and a spacing; with that spacing the report comes."""
    tick(scene, [(50.0, 80.0)] * 6)
    with pytest.raises(TooMuchToReplay, match="one tick in 1200 s") as refusal:
        report(scene.app.store, 1, days=1, limit=9)
    assert (refusal.value.machines, refusal.value.steps) == (MACHINES, 6)
    told: list[float] = []
    thinned = report(
        scene.app.store, 1, days=1, limit=4 * MACHINES, every=timedelta(seconds=1200), progress=told.append
    )
    assert sum(thinned.ticks_by_mode.values()) in {3, 4}
    assert thinned.replayed.moves == {"switch": MACHINES}
    assert told[-1] == 1


def test_ticks_of_another_layout_are_unknown_hours(scene: Scene) -> None:
    """R4.5: what this version cannot read it does not guess."""
    tick(scene, [(50.0, 40.0)] * 2)
    scene.session.run(
        "update smart_schedule_ticks set inputs = jsonb_set(inputs, '{layout}', '999')"
        " where id = (select min(id) from smart_schedule_ticks)"
    )
    replayed = report(scene.app.store, 1, days=AN_HOUR).replayed
    assert replayed.unknown_hours["unreadable"] == pytest.approx(MACHINES / 6, rel=0.02)
    assert replayed.known_hours == pytest.approx(MACHINES / 6, rel=0.02)


def test_a_tick_that_froze_its_policy_moves_nothing(scene: Scene) -> None:
    """R4.5, R6.2: its moves were withheld, and so they are in the report."""
    scene.session.run("update smart_schedule_policy_groups set max_move_share = 0.5")
    tick(scene, [(50.0, 80.0)])
    replayed = report(scene.app.store, 1, days=AN_HOUR).replayed
    assert not replayed.moves
    assert replayed.decisions == {"skip/better_net": MACHINES}


def test_a_reports_round_trips_do_not_depend_on_the_fleet(scene: Scene) -> None:
    """R4.5: three machines or three thousand are read by the same few exchanges."""
    counts = []
    for more in (0, 3000):
        scene.session.run(
            f"insert into machines select g, 'acme', 1, 'S21', 'm' || g, false from generate_series(4, {more}) g;"
            f"insert into machine_mining_runtime select g, 'mining', 1, 1e14, now(), now() from generate_series(4, {more}) g"
        )
        scene.session.run("delete from smart_schedule_ticks")
        for _ in range(2):
            scene.prices()
            scene.session.run("update machine_mining_runtime set reported_at = now()")
            decide(scene)
            scene.forward(60)
        store, exchanges = counting_store(scene.address)
        found = report(store, 1, days=AN_HOUR)
        store.close()
        assert found.replayed.machines == max(more, MACHINES)
        counts.append(exchanges)
    assert counts[0] == counts[1]
    assert sum(counts[1].values()) < 10
