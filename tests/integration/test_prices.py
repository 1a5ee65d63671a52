"""Prices from a real HTTP feed through the tick into decisions on real PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from local.fleet.projects import Coin
from local.simulators.profit import PriceWalk, ProfitFaults, ProfitSimulator
from local.simulators.web import Answer, Drop, Request, Served
from tests.integration.scene import COIN_A, COIN_B, HASHRATE_HS, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_FETCHES = "select outcome, prices from smart_schedule_profit_fetches order by id"
_RUNNING = "select distinct project_id from machine_mining_runtime"


class _Feed:
    """The profit simulator behind a counter; ``answer`` replaces what it says."""

    def __init__(self, simulator: ProfitSimulator) -> None:
        self.simulator = simulator
        self.asked = 0
        self.answer: Answer | Drop | None = None

    def handle(self, request: Request) -> Answer | Drop:
        self.asked += 1
        return self.simulator.handle(request) if self.answer is None else self.answer

    def fault(self, **faults: Any) -> None:
        self.simulator.faults.profile = ProfitFaults(**faults)


class _Fed:
    """The scene with feeds to read from; no price is in the database that a feed did not send."""

    def __init__(self, scene: Scene, stack: ExitStack) -> None:
        self.scene = scene
        self._stack = stack
        scene.session.run("delete from smart_schedule_profit_readings")

    def feed(self, *, b: float = 80.0, key_b: str = "B", a: float = 50.0) -> _Feed:
        """Start a feed that sends coin A and coin B, in CNY per machine and day, and have the product read it."""
        coins = [_coin("A", a), _coin(key_b, b)]
        feed = _Feed(ProfitSimulator(PriceWalk(coins, now=self.scene.now)))
        served = self._stack.enter_context(Served(feed))
        self.scene.start(None, BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL=served.url)
        return feed

    def tick(self, *, after_sec: float = 60) -> Any:
        """The policy's next tick."""
        self.scene.forward(after_sec)
        self.scene.report()
        self.scene.due()
        report = self.scene.app.tick(budget_sec=10)
        assert report.failures == {}
        self.scene.decide()
        return report

    def settle(self) -> None:
        """Let what was decided happen."""
        self.scene.execute()
        for _ in range(2):
            self.scene.forward(10)
            self.scene.report()
            self.scene.reconcile()


@pytest.fixture
def fed(database: DatabaseAddress) -> Iterator[_Fed]:
    """Six machines on coin A, and feeds to be started."""
    with Scene(database) as scene, ExitStack() as stack:
        yield _Fed(scene, stack)


def _coin(key: str, cny_per_day: float) -> Coin:
    return Coin(
        key=key,
        name=key,
        algorithm="SHA-256",
        revenue_usdt_per_hs_day=cny_per_day / HASHRATE_HS,
        price_usdt=1.0,
        block_time_sec=600,
        block_reward=1,
    )


def test_what_the_feed_sends_is_decided_on(fed: _Fed) -> None:
    """R2.1: read over HTTP, kept as it came, and decided on in the same tick."""
    fed.feed()
    report = fed.tick()
    assert (report.feed, report.prices) == ("ok", 2)
    assert fed.scene.rows(_FETCHES) == [["ok", 2]]
    assert fed.scene.rows(
        "select price_key, algorithm, unit, currency, source from smart_schedule_profit_readings order by 1"
    ) == [[key, "SHA-256", "H/s", "USDT", "contract"] for key in "AB"]
    assert fed.scene.decisions() == {"switch/better_net": 6}


def test_a_feed_read_recently_is_not_asked_again(fed: _Fed) -> None:
    """R2.1: ticks closer together than the feed's own interval share one reading, also when it failed."""
    feed = fed.feed()
    assert [fed.tick(after_sec=12).feed for _ in range(5)] == ["ok", "recent", "recent", "ok", "recent"]
    assert feed.asked == 2
    feed.answer = Drop()
    reports = [fed.tick(after_sec=12) for _ in range(3)]
    assert [report.feed for report in reports] == ["recent", "connection", "recent"]
    told = [report.feed_failure for report in reports]
    assert told[0] is None, "the newest answer was one"
    assert (told[1] or "").startswith("contract: connection, GET ")
    assert told[2] == told[1], "still without prices, and it says so"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Drop(), "connection"),
        (Answer(document={}, status=500), "http_status"),
        (Answer(document={}, status=401), "unauthorized"),
        (Answer(document={}), "wrong_shape"),
        (Answer(document=[]), "wrong_shape"),
    ],
    ids=["dropped", "500", "401", "empty", "list"],
)
def test_an_outage_is_kept_with_its_reason_and_ticks_go_on(
    fed: _Fed, answer: Answer | Drop, reason: str
) -> None:
    """R2.1, R8.10: the row says why; the last prices count while fresh, then machines are held and failures counted."""
    feed = fed.feed()
    fed.tick()
    fed.settle()
    feed.answer = answer
    report = fed.tick()
    assert (report.feed, report.recorded) == (reason, 1)
    assert fed.scene.rows(_FETCHES) == [["ok", 2], [reason, 0]]
    assert fed.scene.value(
        "select detail is not null from smart_schedule_profit_fetches order by id desc limit 1"
    )
    assert fed.scene.decisions() == {"keep/already_best": 6}
    fed.tick(after_sec=400)
    assert set(fed.scene.decisions()) == {"keep/price_stale"}
    assert fed.scene.value("select consecutive_failures from smart_schedule_policy_groups") == 1
    feed.answer = None
    fed.tick()
    assert fed.scene.decisions() == {"keep/already_best": 6}
    assert fed.scene.value("select consecutive_failures from smart_schedule_policy_groups") == 0


def test_without_a_feed_ticks_go_on(fed: _Fed) -> None:
    """R2.1: no feed configured: nothing is known, nothing moves, and the failures are counted."""
    assert fed.tick().feed == "not_configured"
    assert set(fed.scene.decisions()) == {"keep/price_unknown"}
    assert fed.scene.rows("select failure from smart_schedule_ticks") == [["no_price_known"]]


@pytest.mark.parametrize(
    "fault",
    [
        {"value": "nan"},
        {"value": "minus_one"},
        {"value": "zero"},
        {"value": "jump"},
        {"stale": True},
        {"future": True},
        {"missing": True},
    ],
    ids=lambda fault: next(iter(fault)) if "value" not in fault else fault["value"],
)
def test_a_figure_that_cannot_be_meant_moves_no_machine(fed: _Fed, fault: dict[str, Any]) -> None:
    """R2.1 (P05, P08, P09): wrong in any known way for the better coin: machines stay, and come over once it is mended."""
    feed = fed.feed(b=45.0)
    fed.tick()
    assert fed.scene.decisions() == {"keep/already_best": 6}
    # whatever the last good reading of B was, it is too old to count
    fed.scene.session.run("update smart_schedule_profit_readings set taken_at = taken_at - interval '1 hour'")
    feed.fault(keys="B", **fault)
    fed.tick()
    (found,) = fed.scene.decisions()
    assert found.startswith("keep/")
    assert fed.scene.value("select count(*) from smart_schedule_attempts") == 0
    assert fed.scene.rows("select failure from smart_schedule_ticks order by id") == [[None], [None]]


@pytest.mark.parametrize("renamed", ["Bcoin", "  bCOIN "])
def test_a_renamed_coin_is_found_by_its_alias(fed: _Fed, renamed: str) -> None:
    """R2.1 (P12): the feed calls it by its full name from one tick to the next: same project, same benchmark, no move."""
    fed.feed()
    fed.tick()
    fed.settle()
    assert fed.scene.rows(_RUNNING) == [[COIN_B]]
    fed.scene.session.run("insert into smart_schedule_price_aliases values ('BCOIN', 'B')")
    fed.feed(key_b=renamed)
    fed.tick(after_sec=600)
    assert fed.scene.decisions() == {"keep/already_best": 6}
    assert fed.scene.rows("select distinct price_key from smart_schedule_profit_readings order by 1") == [
        ["A"],
        ["B"],
    ]
    assert fed.scene.value("select count(*) from smart_schedule_benchmark_runs") == 0


@pytest.mark.parametrize("how", ["vanished", "renamed without an alias"])
def test_a_coin_that_vanished_keeps_its_machines(fed: _Fed, how: str) -> None:
    """R2.1 (P12): gone from the feed, its last price grows stale: its machines stay, and none is switched to nothing."""
    feed = fed.feed()
    fed.tick()
    fed.settle()
    if how == "vanished":
        feed.fault(missing=True, keys="B")
    else:
        fed.feed(key_b="Bcoin")
    for _ in range(2):
        fed.tick(after_sec=400)
        assert fed.scene.decisions() == {"keep/price_stale": 6}
    fed.settle()
    assert fed.scene.rows(_RUNNING) == [[COIN_B]]
    assert fed.scene.posts() == [1]
    assert fed.scene.value("select consecutive_failures from smart_schedule_policy_groups") == 0, (
        "A is still known"
    )


def test_a_flag_of_the_feed_freezes(fed: _Fed) -> None:
    """R2.1, R6.1: what monitoring flags in the snapshot reaches the freeze of the policies that consider it."""
    feed = fed.feed()
    feed.fault(flagged=True, keys="A")
    fed.tick()
    assert fed.scene.rows("select cause, detail from smart_schedule_freezes") == [
        ["anomaly_flagged", {"flags": ["coin A"]}]
    ]


def test_a_jump_is_admitted_once_the_new_level_has_held(fed: _Fed) -> None:
    """R2.1 (P06): a thousandfold is no profit for half an hour; if it stays, it is the price."""
    feed = fed.feed(b=45.0)
    fed.tick()
    feed.fault(value="jump", keys="B")
    for _ in range(4):
        fed.tick(after_sec=500)
        assert fed.scene.decisions() == {"keep/already_best": 6}
    fed.tick(after_sec=500)
    assert fed.scene.decisions() == {"switch/better_net": 6}


@pytest.mark.parametrize("rate", ["", "0", "nan", "-7", "seven"])
def test_without_a_rate_every_machine_is_held(fed: _Fed, rate: str) -> None:
    """R2.1, R11.7 (P01, P02): no usable USDT_TO_CNY_RATE: unknown and not 0: nothing is stopped, and the failure counts."""
    fed.scene.session.run("update smart_schedule_policy_groups set negative_profit_action = 'power_off'")
    fed.scene.start(None, USDT_TO_CNY_RATE=rate)
    fed.scene.prices()
    fed.tick()
    assert fed.scene.decisions() == {"keep/price_unknown": 6}
    assert fed.scene.rows("select failure from smart_schedule_ticks") == [["no_price_known"]]


@pytest.mark.parametrize(
    ("currency", "decided"),
    [
        ("CNY", {"switch/better_net": 6}),
        ("USD", {"stop/negative_profit": 6}),
        ("GBP", {"keep/tariff_currency": 6}),
    ],
)
def test_electricity_in_another_currency_is_priced_by_the_rate_or_not_at_all(
    fed: _Fed, currency: str, decided: dict[str, int]
) -> None:
    """R2.2 (P03): 0.3 a kWh costs 21.6 in CNY and 7.2 times that in dollars; in pounds nobody knows."""
    fed.scene.session.run(f"update cluster_tariffs set currency = '{currency}'")
    fed.scene.start(None, USDT_TO_CNY_RATE="7.2")
    fed.scene.price(COIN_A, 50.0 / 7.2)
    fed.scene.price(COIN_B, 80.0 / 7.2)
    fed.tick()
    assert fed.scene.decisions() == decided
