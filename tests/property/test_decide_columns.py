from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.block import Block, alike_of, block_of
from blsflow.domain.columns import Columns
from blsflow.domain.decide import Rules
from blsflow.domain.guards import heard_span
from blsflow.domain.machine import FLAGGED, UNKNOWN, Benchmark, Machine, Status
from blsflow.domain.policy import Mode
from blsflow.domain.prospects import assess, valid_span
from blsflow.domain.reasons import Action
from blsflow.domain.record import HEAD_BYTES, pack
from blsflow.domain.tariff import TariffProblem
from blsflow.domain.terms import terms_of
from blsflow.domain.verdict import Verdict
from tests.blocks import sent
from tests.property.test_decide import PROJECTS, machines, markets, policies
from tests.scenes import AT, CLUSTER, HASHRATE_HS, a_class, a_market, a_policy

if TYPE_CHECKING:
    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy

RUNNABLE = a_class(run_configs={project: project * 10 for project in PROJECTS}, allowed=frozenset(PROJECTS))
SPOILT = [
    {},
    {},
    {"hashrate_hs": UNKNOWN},
    {"hashrate_hs": math.inf},
    {"hashrate_hs": -math.inf},
    {"hashrate_hs": 0.0},
    {"hashrate_hs": 5e-324},
    {"hashrate_hs": 1.7e308},
    {"power_w": UNKNOWN},
    {"power_w": math.inf},
    {"power_w": 9.99},
    {"power_w": 10.0},
    {"sampled_at": UNKNOWN},
    {"sampled_at": -math.inf},
    {"sampled_at": math.inf},
    {"sampled_at": AT + 30},
    {"sampled_at": AT + 31},
    {"sampled_at": AT - 2_592_000},
    {"sampled_at": AT - 2_592_001},
    {"flags": FLAGGED},
    {"flags": 3},
]


@st.composite
def miners(draw: st.DrawFn) -> Machine:
    """A mining machine with a benchmark for each project, of which one figure at most is spoilt."""
    order = draw(st.permutations(PROJECTS))
    hashrates = st.sampled_from([HASHRATE_HS, HASHRATE_HS, HASHRATE_HS * (1 + 1e-10), HASHRATE_HS / 2])
    measured = [
        Benchmark(project, draw(hashrates), draw(st.sampled_from([1000.0, 3000.0])), AT - 60)
        for project in order
    ]
    spoilt = draw(st.integers(0, len(measured) - 1))
    measured[spoilt] = measured[spoilt]._replace(**draw(st.sampled_from(SPOILT)))  # type: ignore[arg-type]
    return Machine(
        machine_id=1,
        class_index=0,
        status=int(Status.MINING),
        project_id=draw(st.sampled_from(PROJECTS)),
        hashrate_hs=HASHRATE_HS,
        power_w=1000.0,
        project_since=AT - draw(st.sampled_from([60.0, 86_400.0])),
        reported_at=AT - draw(st.sampled_from([0.0, 0.0, 0.0, 601.0])),
        foreign_changes=draw(st.sampled_from([0, 0, 0, 1])),
        benchmarks=tuple(measured),
    )


@st.composite
def fleets_at_rest(draw: st.DrawFn) -> tuple[Policy, Market, list[Machine]]:
    """Mining machines that are ordinary or nearly so, and prices that tie often."""
    cny = st.sampled_from([0.0, 1.0, 10.0, 10.0, 20.0, -1.0, 1e300])
    market = a_market(
        {project: draw(cny) for project in PROJECTS},
        price=draw(st.sampled_from([0.0, 1.0, 1.0, -0.5, 1e300])),
        machines=RUNNABLE,
    )
    fleet = draw(st.lists(miners(), min_size=1, max_size=4))
    numbered = [machine._replace(machine_id=number) for number, machine in enumerate(fleet)]
    return draw(policies(Mode.PROFIT_GUARD)), market, numbered


@st.composite
def fleets_of_classes(draw: st.DrawFn) -> tuple[Policy, Market, list[Machine]]:
    """Machines of classes that differ in what they may run and pay, side by side in one block."""
    policy, market, fleet = draw(fleets_at_rest())
    gap = TariffProblem(kind="tariff_gap")
    tariffs: st.SearchStrategy[float | TariffProblem] = st.sampled_from([0.0, 0.5, 1.0, gap])
    clusters = {
        number: replace(a_market(price=draw(tariffs)).clusters[CLUSTER], cluster_id=number)
        for number in (CLUSTER, CLUSTER + 1, CLUSTER + 2)
    }
    denied = st.sampled_from([frozenset[int](), frozenset[int](), frozenset(PROJECTS[:1])])
    classes = tuple(
        replace(RUNNABLE, index=index, cluster_id=number, denied=draw(denied))
        for index, number in enumerate((*clusters, CLUSTER + 3))  # the last cluster is not known
    )
    fleet += draw(st.lists(miners(), min_size=1, max_size=6))
    placed = [machine._replace(class_index=draw(st.integers(0, len(classes) - 1))) for machine in fleet]
    return policy, replace(market, clusters=clusters, classes=classes), placed


def _version(machine: Machine) -> int:
    return 1000 + machine.machine_id


def _blocks(policy: Policy, fleet: list[Machine]) -> list[Block]:
    """What a tick reads of these machines, and what a trial does, for which all benchmarks come whole."""
    versions = [(machine, _version(machine)) for machine in fleet]
    return [sent(versions, valid_span(AT, policy.benchmark_ttl_sec)), block_of(versions)]


any_scenes = st.tuples(policies(), markets(), st.lists(machines, min_size=1, max_size=4))


@given(st.one_of(fleets_at_rest(), fleets_of_classes(), any_scenes))
def test_deciding_a_block_is_deciding_each_machine(scene: tuple[Policy, Market, list[Machine]]) -> None:
    """R3.10: the quick way for ordinary machines and the rules as they are written come to the same verdicts, bit for bit."""
    policy, market, drawn = scene
    fleet = [machine._replace(machine_id=number) for number, machine in enumerate(drawn)]
    rules = Rules(policy, market)
    expected = {
        (pack(machine)[:HEAD_BYTES], _version(machine)): repr(rules.decide(machine)) for machine in fleet
    }
    for block in _blocks(policy, fleet):
        kept, decided = Rules(policy, market).decide_block(block)
        found = {(each.head, each.version): each.verdict for each in decided}
        for stay in kept:
            keys = zip(stay.heads, stay.versions, strict=True)
            nets = zip(keys, stay.from_projects, stay.current_nets, stay.best_nets, strict=True)
            found |= {
                key: Verdict(Action.KEEP, stay.reason, project, None, None, current, best)
                for key, project, current, best in nets
            }
        assert {key: repr(verdict) for key, verdict in found.items()} == expected
        assert len(decided) + sum(len(stay.heads) for stay in kept) == len(fleet)
        ids = [each.machine.machine_id for each in decided]
        assert ids == sorted(ids)
        for each in decided:
            assert pack(each.machine)[:8] == each.head[:8]
            if each.verdict.benchmark_requests:
                assert _measured(each.machine) == _measured(fleet[each.machine.machine_id])


def _measured(machine: Machine) -> str:
    """All of the machine but the times of its benchmarks."""
    return repr(
        machine._replace(benchmarks=tuple(each._replace(sampled_at=0.0) for each in machine.benchmarks))
    )


@given(fleets_at_rest())
def test_columns_value_like_rows(scene: tuple[Policy, Market, list[Machine]]) -> None:
    """R3.3: what is valued column by column is what is valued project by project, ties and rounding included."""
    policy, market, fleet = scene
    terms = terms_of(policy, market, market.classes[0])
    span = valid_span(AT, policy.benchmark_ttl_sec)
    by_head = {pack(machine)[:HEAD_BYTES]: machine for machine in fleet}
    for block in _blocks(policy, fleet):
        for alike in alike_of(block, span):
            for valued in Columns((terms,), heard_span(policy, AT)).value(alike):
                for number, index in enumerate(valued.indexes):
                    machine = by_head[alike.heads[index]]
                    assert repr(valued.prospects(number)) == repr(assess(machine, terms, span))


def test_ordinary_machines_are_decided_in_columns() -> None:
    """R3.10: the quick way is taken: machines with a plain benchmark for every candidate stay in columns."""
    benchmarks = tuple(Benchmark(project, HASHRATE_HS, 1000.0, AT - 60) for project in PROJECTS)
    plain = Machine(1, 0, int(Status.MINING), PROJECTS[0], reported_at=AT, benchmarks=benchmarks)
    flagged = plain._replace(
        machine_id=2, benchmarks=(benchmarks[0], benchmarks[1]._replace(flags=FLAGGED), *benchmarks[2:])
    )
    fewer = plain._replace(machine_id=3, benchmarks=benchmarks[1:])
    fleet = [plain, flagged, fewer, plain._replace(machine_id=4)]
    policy = a_policy(candidates=PROJECTS)
    market = a_market(dict.fromkeys(PROJECTS, 1.0), machines=RUNNABLE)
    for block in _blocks(policy, fleet):
        kept, decided = Rules(policy, market).decide_block(block)
        assert [head for stay in kept for head in stay.heads] == [
            pack(fleet[each])[:HEAD_BYTES] for each in (0, 3)
        ]
        assert [each.machine.machine_id for each in decided] == [2, 3]
