"""Which benchmark runs begin, what they could win, and what they cost."""

from __future__ import annotations

import math
from datetime import timedelta
from uuid import UUID

import pytest

from blsflow.domain.machine import Benchmark
from blsflow.domain.reading import Unknown
from blsflow.domain.reasons import Action, Reason
from blsflow.domain.sampling import (
    PendingRun,
    Room,
    choose,
    lost_cny,
    possible_gain,
    retry_after,
    shared_age,
)
from blsflow.domain.tariff import TariffProblem
from blsflow.domain.verdict import Verdict
from tests.scenes import AT, HASHRATE_HS, A, B, a_class, a_machine, a_market

ROOMY = Room(machines=100, under_benchmark=0, max_benchmarks=5, max_benchmark_share=1.0)


def run(
    number: int, *, machine: int, value: float | None = 1.0, policy: int = 1, by_operator: bool = False
) -> PendingRun:
    """A pending run."""
    return PendingRun(
        run_id=UUID(int=number),
        policy_id=policy,
        machine_id=machine,
        value_cny_per_day=value,
        by_operator=by_operator,
    )


def chosen(runs: list[PendingRun], room: Room = ROOMY, busy: frozenset[int] = frozenset()) -> list[int]:
    """The numbers of the runs that begin, in order."""
    return [each.run_id.int for each in choose(runs, {1: room, 2: room}, busy)]


@pytest.mark.parametrize(
    ("machines", "under_way", "most", "share", "free"),
    [
        (100, 0, 5, 0.05, 5),
        (100, 0, 50, 0.05, 5),
        (1000, 0, 5, 0.05, 5),
        (100, 3, 5, 0.05, 2),
        (100, 9, 5, 0.05, 0),
        (10, 0, 5, 0.05, 1),
        (0, 0, 5, 0.05, 1),
        (39, 0, 5, 0.05, 1),
        (40, 0, 5, 0.05, 2),
        (100, 0, 0, 1.0, 0),
    ],
)
def test_a_policy_has_room_within_count_and_share(
    machines: int, under_way: int, most: int, share: float, free: int
) -> None:
    """R7.4: the smaller of count and share, less what is under way; a small policy may measure one, 0 turns it off."""
    room = Room(machines=machines, under_benchmark=under_way, max_benchmarks=most, max_benchmark_share=share)
    assert room.free == free


def test_the_most_valuable_begins_first() -> None:
    """R7.4, R3.9: an operator's wish, then by what could be won; a value that nobody knows comes last."""
    runs = [
        run(1, machine=1, value=None),
        run(2, machine=2, value=-5.0),
        run(3, machine=3, value=20.0),
        run(4, machine=4, value=math.nan),
        run(5, machine=5, value=None, by_operator=True),
    ]
    assert chosen(runs) == [5, 3, 2, 1, 4]
    assert chosen(runs, Room(machines=100, under_benchmark=3, max_benchmarks=5, max_benchmark_share=1.0)) == [
        5,
        3,
    ]


def test_a_machine_is_measured_for_one_project_at_a_time() -> None:
    """R7.1: of two runs for a machine the better one begins; none on a machine that is under benchmark already."""
    assert chosen([run(1, machine=7, value=1.0), run(2, machine=7, value=9.0)]) == [2]
    assert chosen([run(1, machine=7)], busy=frozenset({7})) == []


def test_policies_do_not_take_each_others_room() -> None:
    """R7.4: each policy has caps of its own, and one that is unknown has none."""
    small = Room(machines=10, under_benchmark=0, max_benchmarks=1, max_benchmark_share=1.0)
    runs = [
        run(1, machine=1, value=9),
        run(2, machine=2, value=8),
        run(3, machine=3, policy=2),
        run(4, machine=4, policy=3),
    ]
    assert chosen(runs, small) == [1, 3]


def test_b09_a_new_coin_does_not_sample_the_fleet() -> None:
    """R7.4 (B09): 200 machines and 8 projects, all unmeasured: at most a twentieth of them is away at a time."""
    everything = [run(n, machine=n % 200, value=float(n % 8)) for n in range(1600)]
    room = Room(machines=200, under_benchmark=0, max_benchmarks=50, max_benchmark_share=0.05)
    begun = choose(everything, {1: room}, ())
    assert len(begun) == 10
    assert len({each.machine_id for each in begun}) == 10


def gain(
    current: float | None, best: float | None, *, benchmark: Benchmark | None = None, **of_class: float | None
) -> float | None:
    """What measuring B could win for a machine on A: a day's revenue of 24 CNY at the nameplate, at 1 CNY/kWh."""
    nameplate = {"nameplate_hashrate_hs": HASHRATE_HS, "nameplate_power_w": 500.0} | of_class
    machine = a_machine(A)._replace(benchmarks=() if benchmark is None else (benchmark,))
    verdict = Verdict(Action.KEEP, Reason.ALREADY_BEST, A, None, None, current, best)
    market = a_market({A: 20.0, B: 24.0}, price=1.0, machines=a_class(**nameplate))
    return possible_gain(machine, B, verdict, market)


def test_what_a_benchmark_could_win_is_guessed_at_the_nameplate() -> None:
    """R3.9: 24 CNY less 12 for electricity, against the best that is known; else against nothing."""
    assert gain(3.0, 5.0) == pytest.approx(24 - 12 - 5)
    assert gain(3.0, None) == pytest.approx(24 - 12 - 3)
    assert gain(None, None) == pytest.approx(24 - 12)


def test_an_old_benchmark_is_guessed_with_headroom() -> None:
    """R3.9: an expired benchmark could win with a quarter more hashrate, as the decision reckons."""
    old = Benchmark(B, HASHRATE_HS, 500.0, AT - 1e8)
    assert gain(3.0, 5.0, benchmark=old) == pytest.approx(24 * 1.25 - 12 - 5)
    assert gain(3.0, 5.0, benchmark=old._replace(hashrate_hs=0.0)) == pytest.approx(24 - 12 - 5)


def test_what_nobody_can_know_has_no_value() -> None:
    """R2.1: without nameplate, price or tariff the value is unknown, and never 0."""
    assert gain(3.0, 5.0, nameplate_power_w=None) is None
    known = a_class(nameplate_hashrate_hs=HASHRATE_HS, nameplate_power_w=500.0)
    machine, verdict = a_machine(A)._replace(benchmarks=()), Verdict(Action.KEEP, Reason.ALREADY_BEST, A)
    for market in (
        a_market({A: 20.0, B: Unknown(reason="missing")}, price=1.0, machines=known),
        a_market({A: 20.0}, price=1.0, machines=known),
        a_market({A: 20.0, B: 24.0}, price=TariffProblem(kind="tariff_gap"), machines=known),
    ):
        assert possible_gain(machine, B, verdict, market) is None


def test_retries_are_bounded_and_grow() -> None:
    """R7.2: three tries in all, the pauses growing fourfold."""
    assert [retry_after(n) for n in (1, 2, 3, 4)] == [
        timedelta(minutes=10),
        timedelta(minutes=40),
        None,
        None,
    ]


def test_lost_income_is_an_upper_bound_and_never_a_gain() -> None:
    """R7.4: minutes at the running project's net; a loss avoided is not booked, and an unknown net stays unknown."""
    assert lost_cny(14.4, 100.0) == pytest.approx(1.0)
    assert lost_cny(14.4, -100.0) == 0.0
    assert lost_cny(14.4, None) is None


def test_shared_figures_do_not_expire_at_once() -> None:
    """R7.4: ages of shared figures are the same each time, within a tenth of the time to live, and spread over it."""
    ttl = 2_592_000
    ages = [shared_age(machine, 2, ttl).total_seconds() for machine in range(1000)]
    assert ages == [shared_age(machine, 2, ttl).total_seconds() for machine in range(1000)]
    assert all(0 <= age <= ttl / 10 for age in ages)
    tenths = {int(age / (ttl / 100)) for age in ages}
    assert tenths >= set(range(10))
    assert shared_age(1, 2, ttl) != shared_age(1, 3, ttl)
