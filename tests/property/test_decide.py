"""What holds for every decision, whatever the fleet, the prices and the policy."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.decide import Rules
from blsflow.domain.explain import explain
from blsflow.domain.machine import FLAGGED, STOPPED_BY_SCHEDULER, UNKNOWN, Benchmark, Machine, Status
from blsflow.domain.policy import Mode, NegativeProfitAction, Window, WindowAction
from blsflow.domain.reading import Known, Reading, Stale, Unknown
from blsflow.domain.record import pack, unpack, unpack_all
from blsflow.domain.stored_inputs import dump, load
from blsflow.domain.tariff import TariffProblem
from blsflow.domain.verdict import MOVES
from tests.scenes import AT, HASHRATE_HS, NOW, A, B, C, a_class, a_market, a_policy

if TYPE_CHECKING:
    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy
    from blsflow.domain.verdict import Verdict

PROJECTS = (A, B, C, 14)
# Few distinct figures, so that ties, zeros and limits that are met exactly come up often.
money = st.one_of(st.sampled_from([0.5, 1.0, 10.0, 20.0, 24.0, 30.0]), st.floats(0.01, 100))
ages = st.sampled_from([-31.0, -30.0, 0.0, 60.0, 600.0, 601.0, 3600.0, 2_592_000.0, 2_592_001.0, UNKNOWN])
hashrates = st.sampled_from([HASHRATE_HS, HASHRATE_HS, HASHRATE_HS / 2, 0.0, -1.0, UNKNOWN, math.inf])
powers = st.sampled_from([1000.0, 1000.0, 3000.0, 9.9, 0.0, UNKNOWN, math.inf])
readings: st.SearchStrategy[float | Reading] = st.one_of(
    money.map(lambda cny: Known(value=cny / HASHRATE_HS, taken_at=NOW)),
    st.sampled_from(
        [
            Unknown(reason="missing"),
            Unknown(reason="quarantined"),
            Stale(last_value=1.0, taken_at=NOW, reason="stale"),
            Known(value=1e308, taken_at=NOW),
        ]
    ),
)
tariffs = st.one_of(
    st.sampled_from([0.0, 1.0, -0.5, 0.5]),
    st.sampled_from(
        [TariffProblem(kind="tariff_gap"), TariffProblem(kind="tariff_overlap", names=("a", "b"))]
    ),
)
subsets = st.sets(st.sampled_from(PROJECTS)).map(frozenset)
benchmarks = st.builds(
    Benchmark,
    project_id=st.just(A),
    hashrate_hs=hashrates,
    power_w=powers,
    sampled_at=ages.map(lambda age: AT - age),
    flags=st.sampled_from([0, 0, 1, 2, FLAGGED]),
)
machines = st.builds(
    Machine,
    machine_id=st.integers(1, 2**62),
    class_index=st.just(0),
    status=st.sampled_from([*map(int, Status), int(Status.MINING), int(Status.STOPPED)]),
    project_id=st.sampled_from([0, *PROJECTS, *PROJECTS]),
    hashrate_hs=hashrates,
    power_w=powers,
    project_since=ages.map(lambda age: AT - age),
    reported_at=st.sampled_from([AT, AT, AT, AT - 600, AT - 601, AT + 31, UNKNOWN]),
    flags=st.one_of(st.sampled_from([0, 0, 16, 16]), st.integers(0, 127)),
    foreign_changes=st.sampled_from([0, 0, 3, 4, 255]),
    overridden_by=st.sampled_from([0, 0, 0, 5]),
    allow_bits=st.integers(0, 15),
    deny_bits=st.sampled_from([0, 0, 0, 1, 2, 15]),
    benchmarks=st.tuples(st.permutations(PROJECTS), st.lists(benchmarks, max_size=4)).map(
        lambda drawn: tuple(each._replace(project_id=p) for p, each in zip(*drawn, strict=False))
    ),
)
windows = st.builds(
    lambda action, project, ends: Window(
        id=1,
        starts="00:00",
        ends=ends,
        action=action,
        project_id=project if action in {WindowAction.RUN_PROJECT, WindowAction.START} else None,
    ),
    st.sampled_from(WindowAction),
    st.sampled_from(PROJECTS),
    st.sampled_from(["24:00", "24:00", "01:00"]),
)


@st.composite
def policies(draw: st.DrawFn, mode: Mode | None = None) -> Policy:
    """A policy of either mode, or of one."""
    return a_policy(
        mode=draw(st.sampled_from(Mode)) if mode is None else mode,
        candidates=tuple(draw(st.lists(st.sampled_from(PROJECTS), unique=True))),
        windows=(draw(windows),),
        min_gain_cny_per_day=draw(st.sampled_from([0.0, 1.0, 10.0])),
        min_gain_ratio=draw(st.sampled_from([0.0, 0.05, 1.0])),
        min_dwell_sec=draw(st.sampled_from([0, 600, 3600])),
        switch_cost_sec=draw(st.sampled_from([0, 300, 3600])),
        holding_time_sec=draw(st.sampled_from([600, 14_400])),
        negative_profit_action=draw(st.sampled_from(NegativeProfitAction)),
        restart_threshold_cny_per_day=draw(st.sampled_from([-5.0, 0.0, 1.0])),
    )


@st.composite
def markets(draw: st.DrawFn) -> Market:
    """A market in which anything may be unknown."""
    machines_class = a_class(
        run_configs={project: project * 10 for project in draw(subsets)},
        allowed=draw(subsets),
        denied=draw(st.one_of(st.just(frozenset()), subsets)),
    )
    return a_market(
        dict(draw(st.dictionaries(st.sampled_from(PROJECTS), readings))),
        price=draw(tariffs),
        change_in_sec=draw(st.sampled_from([None, 0.0, 300.0, 3600.0])),
        machines=draw(st.sampled_from([machines_class, a_class(), a_class()])),
    )


class Scene(NamedTuple):
    """A policy, a market and a machine."""

    policy: Policy
    market: Market
    machine: Machine

    @property
    def verdict(self) -> Verdict:
        """What is decided in it."""
        return Rules(self.policy, self.market).decide(self.machine)


@st.composite
def lively_scenes(draw: st.DrawFn) -> Scene:
    """Scenes in which all is known but for one price at most, so that machines often move."""
    revenues: dict[int, float | Reading] = dict.fromkeys(PROJECTS, 0.0)
    for project in PROJECTS:
        revenues[project] = draw(money)
    missing = draw(st.sampled_from([None, None, *PROJECTS]))
    if missing is not None:
        revenues[missing] = Unknown(reason="missing")
    market = a_market(
        revenues,
        price=draw(st.sampled_from([0.0, 1.0, 4.0, -0.5])),
        change_in_sec=draw(st.sampled_from([None, None, 300.0, 3600.0])),
        machines=a_class(
            run_configs={project: project * 10 for project in PROJECTS}, allowed=frozenset(PROJECTS)
        ),
    )
    measured = draw(st.lists(st.sampled_from(PROJECTS), min_size=1, unique=True))
    mining = draw(st.booleans())
    machine = Machine(
        machine_id=1,
        class_index=0,
        status=int(Status.MINING if mining else Status.STOPPED),
        project_id=draw(st.sampled_from(measured)),
        project_since=AT - 86_400,
        reported_at=AT,
        flags=0 if mining else STOPPED_BY_SCHEDULER,
        benchmarks=tuple(
            Benchmark(project, HASHRATE_HS, draw(st.sampled_from([1000.0, 3000.0])), AT - 60)
            for project in measured
        ),
    )
    return Scene(draw(policies(Mode.PROFIT_GUARD)), market, machine)


moving_scenes = lively_scenes().filter(lambda scene: scene.verdict.action in MOVES)


@given(policies(), markets(), st.lists(machines, max_size=6), st.randoms())
def test_order_of_machines_does_not_matter(
    policy: Policy, market: Market, fleet: list[Machine], random: object
) -> None:
    """R3.10: a machine's verdict depends on no other machine, and asking twice changes nothing."""
    rules = Rules(policy, market)
    verdicts = {id(machine): rules.decide(machine) for machine in fleet}
    shuffled = list(fleet)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = Rules(policy, market)
    for machine in shuffled:
        assert again.decide(machine) == verdicts[id(machine)]


@given(policies(), markets(), machines)
def test_stored_inputs_give_the_same_verdict(policy: Policy, market: Market, machine: Machine) -> None:
    """R3.2, R3.10: from the record and the tick's stored inputs the decision is recomputed exactly."""
    record = pack(machine)
    unpacked, end = unpack(record)
    assert end == len(record)
    assert pack(unpacked) == record
    stored_policy, stored_market = load(json.loads(json.dumps(dump(policy, market))))
    assert (stored_policy, stored_market) == (policy, market)
    assert Rules(stored_policy, stored_market).decide(unpacked) == Rules(policy, market).decide(machine)


@given(st.lists(machines, max_size=5))
def test_records_can_be_put_end_to_end(fleet: list[Machine]) -> None:
    """R3.2: a block of records holds the machines it was made of, in their order."""
    block = b"".join(map(pack, fleet))
    assert b"".join(map(pack, unpack_all(block))) == block
    assert [machine.machine_id for machine in unpack_all(block)] == [each.machine_id for each in fleet]


@given(policies(), markets(), machines)
def test_what_is_chosen_may_run(policy: Policy, market: Market, machine: Machine) -> None:
    """R1.2: whatever is to run is eligible and runnable, and in profit_guard a candidate with a known price."""
    verdict = Rules(policy, market).decide(machine)
    if verdict.to_project is None:
        assert verdict.action not in {"switch", "start"}
        assert verdict.run_config_id is None
        return
    shared = market.classes[0]
    bit = 1 << policy.considered_projects.index(verdict.to_project)
    assert verdict.to_project in shared.allowed or machine.allow_bits & bit
    assert verdict.to_project not in shared.denied
    assert not machine.deny_bits & bit
    assert verdict.run_config_id == shared.run_configs[verdict.to_project]
    if policy.mode is Mode.PROFIT_GUARD:
        assert verdict.to_project in policy.candidates
        assert isinstance(market.projects[verdict.to_project].revenue, Known)


@given(moving_scenes, st.sampled_from(["tariff", "report", "status", "what runs", "price of what runs"]))
def test_no_unknown_input_yields_an_action(scene: Scene, spoilt: str) -> None:
    """R2.1: take any one input away that a move rests on, and the machine does not move at all."""
    policy, market, machine = scene
    mining = machine.status == Status.MINING
    if spoilt == "tariff":
        market = replace(market, clusters=a_market({}, price=TariffProblem(kind="tariff_gap")).clusters)
    elif spoilt == "report":
        machine = machine._replace(reported_at=UNKNOWN)
    elif spoilt == "status":
        machine = machine._replace(status=int(Status.UNKNOWN))
    elif spoilt == "what runs":
        machine = machine._replace(project_id=0)
    else:
        market = without_price(market, machine.project_id)
    # what a stopped machine ran before is no input of its start
    if mining or spoilt in {"tariff", "report", "status"}:
        assert Scene(policy, market, machine).verdict.action not in MOVES


@given(moving_scenes, st.sampled_from(["price", "hashrate_hs", "power_w", "sampled_at", "benchmark"]))
def test_nothing_unknown_is_moved_to(scene: Scene, spoilt: str) -> None:
    """R2.1, R2.3: without its price or any one figure of its benchmark a project is never what a machine moves to."""
    policy, market, machine = scene
    target = scene.verdict.to_project
    if target is None:
        return
    if spoilt == "price":
        after = Scene(policy, without_price(market, target), machine).verdict
        # no loss is cut either while a measured candidate's price is unknown
        assert after.action not in {"stop", "power_off"}
    elif spoilt == "benchmark":
        left = tuple(each for each in machine.benchmarks if each.project_id != target)
        after = Scene(policy, market, machine._replace(benchmarks=left)).verdict
    else:
        blank: dict[str, Any] = {spoilt: UNKNOWN}
        spoiled = tuple(
            each._replace(**blank) if each.project_id == target else each for each in machine.benchmarks
        )
        after = Scene(policy, market, machine._replace(benchmarks=spoiled)).verdict
    assert after.to_project != target


@given(lively_scenes(), st.floats(1.0, 50.0))
def test_raising_a_price_never_makes_its_project_lose(scene: Scene, factor: float) -> None:
    """R3.3: a project that is chosen, or stays, is chosen or stays at any higher price of its own."""
    policy, market, machine = scene
    verdict = scene.verdict
    stays = verdict.action == "keep" and verdict.reason == "already_best"
    winner = verdict.to_project or (verdict.from_project if stays else None)
    if winner is None:
        return
    project = market.projects[winner]
    assert isinstance(project.revenue, Known)
    dearer = replace(project, revenue=Known(value=project.revenue.value * factor, taken_at=NOW))
    after = Scene(policy, replace(market, projects={**market.projects, winner: dearer}), machine).verdict
    assert (after.action, after.to_project) == (verdict.action, verdict.to_project)


@given(policies(Mode.PROFIT_GUARD), markets(), machines)
def test_negative_electricity_price_is_income(policy: Policy, market: Market, machine: Machine) -> None:
    """R2.2: with a price below zero every net is above its revenue, and nothing is stopped for a loss."""
    paid = replace(market, clusters=a_market({}, price=-0.5, change_in_sec=None).clusters)
    for project in explain(policy, paid, machine).projects:
        figures = project.figures
        if figures is not None and figures.revenue is not None and math.isfinite(figures.revenue):
            assert figures.net is not None
            assert figures.net > figures.revenue
    assert Rules(policy, paid).decide(machine).action not in {"stop", "power_off"}


@given(policies(), markets(), machines)
def test_explanation_agrees_with_the_verdict(policy: Policy, market: Market, machine: Machine) -> None:
    """R3.2: the figures shown are the figures decided on, and the first hurdle in the way is the reason."""
    verdict = Rules(policy, market).decide(machine)
    explanation = explain(policy, market, machine)
    assert explanation.verdict == verdict
    nets = {each.project_id: each.figures and each.figures.net for each in explanation.projects}
    if verdict.current_net is not None:
        assert nets[machine.project_id] == verdict.current_net
    if verdict.to_project is not None and policy.mode is Mode.PROFIT_GUARD:
        assert nets[verdict.to_project] == verdict.best_net
        assert all(hurdle.cleared for hurdle in explanation.hurdles)
    blocking = [hurdle.reason for hurdle in explanation.hurdles if not hurdle.cleared]
    if verdict.reason in {hurdle.reason for hurdle in explanation.hurdles}:
        assert blocking[0] == verdict.reason


@given(policies(), markets(), machines)
def test_everybody_else_is_left_alone(policy: Policy, market: Market, machine: Machine) -> None:
    """R3.5, R3.7: nothing moves a machine that is overridden, held, locked, offline, or stopped by a human."""
    for touched in (
        machine._replace(overridden_by=3),
        machine._replace(flags=machine.flags | 1),
        machine._replace(flags=machine.flags | 2),
        machine._replace(flags=machine.flags | 4),
        machine._replace(flags=machine.flags | 64),
        # one that the scheduler powered off may be silent
        machine._replace(reported_at=AT - 601, status=int(Status.MINING)),
        machine._replace(foreign_changes=4),
    ):
        assert Rules(policy, market).decide(touched).action == "skip"
    stopped = machine._replace(flags=machine.flags | 32, status=int(Status.STOPPED))
    assert Rules(policy, market).decide(stopped).action not in {"start", "switch"}


def without_price(market: Market, project: int) -> Market:
    """The same market, in which one project is gone from the feed."""
    return replace(market, projects={k: v for k, v in market.projects.items() if k != project})
