from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.columns import Columns
from blsflow.domain.decide import Rules
from blsflow.domain.machine import FLAGGED, UNKNOWN, Benchmark, Machine, Status
from blsflow.domain.policy import Mode
from blsflow.domain.prospects import assess, valid_span
from blsflow.domain.record import pack, unpack_flat
from blsflow.domain.terms import terms_of
from tests.property.test_decide import PROJECTS, machines, markets, policies
from tests.scenes import AT, HASHRATE_HS, a_class, a_market, a_policy

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
def fleets_at_rest(draw: st.DrawFn) -> tuple[Policy, Market, Machine]:
    """Mining machines with a benchmark for each project, of which one figure at most is spoilt, and prices that tie often."""
    cny = st.sampled_from([0.0, 1.0, 10.0, 10.0, 20.0, -1.0, 1e300])
    market = a_market(
        {project: draw(cny) for project in PROJECTS},
        price=draw(st.sampled_from([0.0, 1.0, 1.0, -0.5, 1e300])),
        machines=RUNNABLE,
    )
    order = draw(st.permutations(PROJECTS))
    hashrates = st.sampled_from([HASHRATE_HS, HASHRATE_HS, HASHRATE_HS * (1 + 1e-10), HASHRATE_HS / 2])
    measured = [
        Benchmark(project, draw(hashrates), draw(st.sampled_from([1000.0, 3000.0])), AT - 60)
        for project in order
    ]
    spoilt = draw(st.integers(0, len(measured) - 1))
    measured[spoilt] = measured[spoilt]._replace(**draw(st.sampled_from(SPOILT)))  # type: ignore[arg-type]
    machine = Machine(
        machine_id=1,
        class_index=0,
        status=int(Status.MINING),
        project_id=draw(st.sampled_from(PROJECTS)),
        hashrate_hs=HASHRATE_HS,
        power_w=1000.0,
        project_since=AT - draw(st.sampled_from([60.0, 86_400.0])),
        reported_at=AT,
        benchmarks=tuple(measured),
    )
    return draw(policies(Mode.PROFIT_GUARD)), market, machine


any_scenes = st.tuples(policies(), markets(), machines)


@given(st.one_of(fleets_at_rest(), any_scenes))
def test_deciding_from_the_record_is_deciding_from_the_machine(scene: tuple[Policy, Market, Machine]) -> None:
    """R3.10: the quick way for ordinary machines and the rules as they are written come to the same verdict, bit for bit."""
    policy, market, machine = scene
    record = pack(machine)
    decided, verdict, end = Rules(policy, market).decide_record(b"before" + record + b"after", len(b"before"))
    assert repr(verdict) == repr(Rules(policy, market).decide(machine))
    assert end == len(b"before") + len(record)
    assert decided.machine_id == machine.machine_id
    if verdict.benchmark_requests:
        assert repr(decided) == repr(machine)


@given(fleets_at_rest())
def test_columns_value_like_rows(scene: tuple[Policy, Market, Machine]) -> None:
    """R3.3: what is valued column by column is what is valued project by project, ties and rounding included."""
    policy, market, machine = scene
    terms = terms_of(policy, market, market.classes[0])
    span = valid_span(AT, policy.benchmark_ttl_sec)
    bare, figures, _ = unpack_flat(pack(machine), 0)
    found = Columns((terms,), span).assess(bare, figures)
    if found is not None:
        assert repr(found) == repr(assess(machine, terms, span))


def test_an_ordinary_machine_is_valued_by_columns() -> None:
    """R3.10: the quick way is taken: a machine with a plain benchmark for every candidate is assessed column by column."""
    benchmarks = tuple(Benchmark(project, HASHRATE_HS, 1000.0, AT - 60) for project in PROJECTS)
    machine = Machine(1, 0, int(Status.MINING), PROJECTS[0], benchmarks=benchmarks)
    policy = a_policy(candidates=PROJECTS)
    market = a_market(dict.fromkeys(PROJECTS, 1.0), machines=RUNNABLE)
    columns = Columns(
        (terms_of(policy, market, market.classes[0]),), valid_span(AT, policy.benchmark_ttl_sec)
    )
    bare, figures, _ = unpack_flat(pack(machine), 0)
    assert columns.assess(bare, figures) is not None
