from __future__ import annotations

import pytest

from blsflow.domain.explain import explain
from blsflow.domain.policy import Window, WindowAction
from blsflow.domain.reading import Unknown
from blsflow.domain.stored_inputs import UnreadableInputs, dump, load
from blsflow.domain.tariff import TariffProblem
from tests.scenes import (
    HASHRATE_HS,
    POWER_W,
    A,
    B,
    C,
    a_benchmark,
    a_class,
    a_machine,
    a_market,
    a_policy,
    a_stopped_machine,
    a_window_policy,
    decide,
)

MARKET = a_market({A: 40, B: 60, C: Unknown(reason="missing")}, price=1.0, change_in_sec=900)


def test_figures_can_be_recomputed_by_hand() -> None:
    """R3.2: revenue, cost and net of each project, and they are the verdict's."""
    explanation = explain(a_policy(), MARKET, a_machine(A))
    a, b, c = explanation.projects
    assert a.figures is not None
    assert b.figures is not None
    assert c.figures is not None
    assert a.figures.revenue == pytest.approx(40)
    assert a.figures.cost == pytest.approx(24)
    assert a.figures.net == explanation.verdict.current_net
    assert b.figures.net == explanation.verdict.best_net
    assert (c.figures.revenue, c.figures.net) == (None, None)
    assert (a.is_running, b.is_running, a.name) == (True, False, "P11")
    assert explanation.verdict == decide(a_policy(), MARKET, a_machine(A))


def test_hurdles_are_listed_with_their_limits() -> None:
    """R3.2, R3.4: every threshold compared, also those after the one that held the machine."""
    policy = a_policy(min_dwell_sec=90_000, min_gain_cny_per_day=5.0, switch_cost_sec=600)
    explanation = explain(policy, MARKET, a_machine(A))
    assert [(hurdle.reason, hurdle.cleared) for hurdle in explanation.hurdles] == [
        ("min_dwell", False),
        ("gain_below_absolute", True),
        ("gain_below_ratio", True),
        ("switch_cost_not_recovered", False),
    ]
    cost = explanation.hurdles[-1]
    assert cost.value == pytest.approx(20 * 900 / 86_400)
    assert cost.limit == pytest.approx(60 * 600 / 86_400)
    assert explanation.verdict.reason == "min_dwell"
    assert explanation.horizon_sec == 900


def test_hurdles_of_a_start() -> None:
    """R3.5: a stopped machine shows the restart threshold and whether a start pays off in time."""
    explanation = explain(a_policy(), MARKET, a_stopped_machine())
    assert [hurdle.reason for hurdle in explanation.hurdles] == [
        "below_restart_threshold",
        "tariff_change_ahead",
    ]


def test_running_project_is_shown_though_no_candidate() -> None:
    """R3.2: what runs is part of the figures, by its report if it was never measured."""
    machine = a_machine(A, measured=(B,), hashrate_hs=HASHRATE_HS, power_w=POWER_W)
    shown = explain(a_policy(candidates=(B,)), MARKET, machine).projects
    assert [(each.project_id, each.is_candidate) for each in shown] == [(B, True), (A, False)]
    assert shown[1].figures is not None
    assert (shown[1].figures.source, shown[1].benchmark_state) == ("report", "missing")


def test_why_a_candidate_does_not_count() -> None:
    """R3.2: eligibility, run configuration, price and benchmark of each candidate are told."""
    market = a_market(
        {A: 40, B: 60}, price=1.0, machines=a_class(denied=frozenset({B}), run_configs={A: 1, B: 2})
    )
    machine = a_machine(A, measured=(A,))._replace(
        benchmarks=(a_benchmark(A), a_benchmark(B, hashrate_hs=0.0))
    )
    _, b, c = explain(a_policy(), market, machine).projects
    assert (b.eligible, b.run_config_id, b.benchmark_state, b.figures) == (False, 2, "invalid", None)
    assert (c.eligible, c.run_config_id, c.benchmark_state) == (True, None, "missing")
    assert c.revenue == Unknown(reason="missing")


def test_unknown_electricity_price_has_no_cost() -> None:
    """R2.2: a gap is shown as no cost at all, never as 0."""
    market = a_market({A: 40}, price=TariffProblem(kind="tariff_gap"))
    figures = explain(a_policy(), market, a_machine(A)).projects[0].figures
    assert figures is not None
    assert figures.revenue == pytest.approx(40)
    assert (figures.cost, figures.net) == (None, None)


def test_active_window_is_shown() -> None:
    """R3.2: in time_window mode the explanation is the window."""
    window = Window(id=4, starts="00:00", ends="24:00", action=WindowAction.STOP)
    explanation = explain(a_window_policy(window), MARKET, a_machine(A))
    assert explanation.window == window
    assert explanation.hurdles == ()


def test_inputs_of_another_layout_are_refused() -> None:
    """R3.10: a decision is recomputed from what was stored, or not at all."""
    stored = dump(a_policy(), MARKET)
    assert load(stored) == (a_policy(), MARKET)
    assert load(stored | {"layout": 1}) == load(stored)
    with pytest.raises(UnreadableInputs, match="layout 99"):
        load(stored | {"layout": 99})
