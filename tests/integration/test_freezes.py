"""Freezes on real PostgreSQL: each cause once, told once, surviving restarts and races, and lifted by people alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from blsflow.flow import control
from local.simulators.device_control import DeviceFaults
from tests.integration.racing import at_once
from tests.integration.scene import COIN_A, COIN_B, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_OPEN = "select cause from smart_schedule_freezes where lifted_at is null"
_LIVE_LOCKS = "select count(*) from smart_schedule_machine_locks where freed_at is null"
_SET = "update smart_schedule_policy_groups set "


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Six machines on coin A, with coin B earning more."""
    with Scene(database) as made:
        # Due only when a test says so, and never twice because the test was slow.
        made.session.run(
            "update smart_schedule_schedules"
            " set rule = jsonb_build_object('kind', 'interval', 'every_sec', 86400, 'anchor', now() - interval '12 hours')"
        )
        yield made


def _told(scene: Scene, code: str = "policy_frozen") -> tuple[int, int]:
    """How often something was told of: in the outbox, in the log."""
    outbox = scene.value(f"select count(*) from smart_schedule_outbox where code = '{code}'")
    log = scene.value(f"select count(*) from smart_schedule_log_events where code = '{code}'")
    return int(outbox), int(log)


def _next(scene: Scene) -> Any:
    """The next tick, a minute later, with machines that report."""
    scene.forward(60)
    scene.report()
    scene.due()
    scene.tick()
    (report,) = scene.decide()
    return report


def _without_prices(scene: Scene) -> None:
    scene.session.run("delete from smart_schedule_profit_readings")


def _failures(scene: Scene) -> int:
    count: int = scene.value("select consecutive_failures from smart_schedule_policy_groups where id = 1")
    return count


# ---------------------------------------------------------------- failed ticks


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a new process each time"])
def test_so_many_failed_ticks_in_a_row_freeze_once(scene: Scene, *, restarts: bool) -> None:
    """R6.1, R6.3, R6.4: the third tick without a usable price freezes; told once; the count survives restarts."""
    _without_prices(scene)
    seen = []
    for _ in range(5):
        if restarts:
            scene.app.store.close()
            scene.start()
        report = _next(scene)
        seen.append((report.outcome, report.frozen_for, _failures(scene)))
    assert seen == [
        ("decided", None, 1),
        ("decided", None, 2),
        ("decided", "profit_unusable", 3),
        ("frozen", None, 3),
        ("frozen", None, 3),
    ]
    assert scene.rows(_OPEN) == [["profit_unusable"]]
    assert _told(scene) == (1, 1)
    assert (
        scene.rows("select state, reason from smart_schedule_occurrences order by id desc limit 2")
        == [["skipped", "frozen"]] * 2
    )
    assert scene.posts() == []


def test_ticks_that_race_count_each_and_freeze_once(scene: Scene) -> None:
    """R6.4: five failed ticks at once in as many processes: they take turns, three count, one freezes, two find it so."""
    _without_prices(scene)
    for request in range(5):
        control.run(
            scene.app.store, 1, request_id=f"r{request}", decide_queue=scene.app.decide_queue, by="op"
        )
    occurrences = [row[0] for row in scene.rows("select id from smart_schedule_occurrences order by id")]
    processes = [scene.process() for _ in occurrences]
    outcomes: list[tuple[str, str | None]] = []

    def decide(app: Any, occurrence: int) -> None:
        report = app.decide(occurrence)
        outcomes.append((report.outcome, report.frozen_for))

    at_once(
        *(
            lambda app=app, occurrence=occurrence: decide(app, occurrence)
            for app, occurrence in zip(processes, occurrences, strict=True)
        )
    )
    assert sorted(outcomes, key=str) == [
        ("decided", "profit_unusable"),
        ("decided", None),
        ("decided", None),
        ("frozen", None),
        ("frozen", None),
    ]
    assert (_failures(scene), _told(scene)) == (3, (1, 1))
    for app in processes:
        app.store.close()


def test_one_good_reading_starts_the_count_anew(scene: Scene) -> None:
    """R6.4: two failures, one tick with a usable price, two failures: not frozen; a third in a row is."""
    counts = []
    for usable in (False, False, True, False, False):
        if usable:
            scene.price(COIN_A, 50.0)
        else:
            _without_prices(scene)
        _next(scene)
        counts.append(_failures(scene))
    assert counts == [1, 2, 0, 1, 2]
    assert scene.rows(_OPEN) == []
    _without_prices(scene)
    assert _next(scene).frozen_for == "profit_unusable"


@pytest.mark.parametrize(
    "change",
    [
        "update smart_schedule_profit_readings set taken_at = now() - interval '1 day'",
        "update smart_schedule_profit_readings set revenue = 'NaN'",
        "update smart_schedule_profit_readings set revenue = -1",
        "update smart_schedule_profit_readings set currency = 'GBP'",
        "update smart_schedule_profit_readings set flags = '{lagging}'",
        "update cluster_tariffs set currency = 'GBP'",
        "delete from cluster_tariff_periods",
    ],
)
def test_inputs_that_cannot_be_used_fail_a_tick(scene: Scene, change: str) -> None:
    """R2.1, R2.2, R6.1 (P02, P03): stale, impossible or in pounds: a failure that counts, and no machine is moved."""
    scene.session.run(change)
    scene.due()
    scene.tick()
    (report,) = scene.decide()
    assert _failures(scene) == 1
    assert report.attempts == 0
    assert not [key for key in report.counts if not key.startswith(("keep/", "skip/"))]


# ---------------------------------------------------------------- anomalies


def test_a_flag_of_monitoring_freezes_at_once(scene: Scene) -> None:
    """R6.1, R6.2: an anomaly flag on a candidate's newest price: frozen by that tick, whose moves are withheld."""
    scene.price(COIN_A, 20.0)
    scene.session.run(
        "update smart_schedule_profit_readings set flags = '{spread}' where price_key = 'A' and received_at ="
        " (select max(received_at) from smart_schedule_profit_readings where price_key = 'A')"
    )
    assert _next(scene).frozen_for == "anomaly_flagged"
    assert scene.rows("select cause, detail, frozen_by from smart_schedule_freezes") == [
        ["anomaly_flagged", {"flags": ["coin A"]}, "scheduler"]
    ]
    assert (_told(scene), scene.posts(), scene.value(_LIVE_LOCKS)) == ((1, 1), [], 0)


@pytest.mark.parametrize(("factor", "frozen_for"), [("5", "price_jump"), ("1000000", None), ("null", None)])
def test_a_price_jump_freezes_beyond_the_policys_own_factor(
    scene: Scene, factor: str, frozen_for: str | None
) -> None:
    """R2.1, R6.1 (P05): a thousandfold price is quarantined in any case, and freezes where a factor is set."""
    scene.session.run(f"{_SET} freeze_jump_factor = {factor}, execution_mode = 'shadow'")
    assert _next(scene).frozen_for is None
    scene.forward(1)
    scene.price(COIN_A, 50_000.0)
    scene.price(COIN_B, 81.0)
    report = _next(scene)
    assert report.frozen_for == frozen_for
    assert scene.value(
        "select price_level < 60 / 1e14 and price_pending_level > 1e4 / 1e14"
        " from smart_schedule_policy_candidates where project_id = 1"
    ), "the trusted level stays, the new one is on probation"


@pytest.mark.parametrize(("movers", "frozen"), [(1, False), (3, False), (4, True), (6, True)])
def test_too_many_moves_at_once_are_all_withheld(scene: Scene, movers: int, *, frozen: bool) -> None:
    """R6.1, R6.2: more than half of the machines would move: none does; each says so, and keeps what was proposed."""
    scene.session.run(
        f"{_SET} max_move_share = 0.5;"
        f" update machine_mining_runtime set project_id = 2 where machine_id > {movers}"
    )
    scene.tick()
    (report,) = scene.decide()
    kept = {"keep/already_best": 6 - movers} if movers < 6 else {}
    if not frozen:
        assert scene.decisions() == {"switch/better_net": movers} | kept
        assert (report.frozen_for, report.attempts) == (None, 1)
        return
    assert scene.decisions() == {"skip/policy_frozen": movers} | kept
    assert (report.frozen_for, report.attempts, report.gain_cny_per_day) == ("move_share", 0, 0.0)
    assert dict(report.counts) == scene.decisions()
    assert scene.rows("select detail from smart_schedule_freezes") == [[{"moves": movers, "machines": 6}]]
    assert (
        scene.value("select count(*) from smart_schedule_machine_decisions where proposed = 'switch'")
        == movers
    )
    assert scene.value("select count(*) from smart_schedule_attempts") == 0
    assert scene.value("select count(*) from smart_schedule_machine_locks") == 0
    scene.execute()
    assert scene.posts() == []
    assert _told(scene) == (1, 1)


def test_a_policy_that_only_watches_freezes_too(scene: Scene) -> None:
    """R4.1: shadow shows the whole behaviour, freezes included; a dry run only says that it would."""
    scene.session.run(f"{_SET} execution_mode = 'dry_run', max_move_share = 0.5")
    assert _next(scene).frozen_for is None
    assert scene.value("select detail ->> 'would_freeze_for' from smart_schedule_occurrences") == "move_share"
    scene.session.run(f"{_SET} execution_mode = 'shadow'")
    scene.prices()
    assert _next(scene).frozen_for == "move_share"
    assert _told(scene) == (1, 1)


# ---------------------------------------------------------------- failed commands


def test_failed_jobs_freeze_by_what_reconcile_finds(scene: Scene) -> None:
    """R6.1, R6.3: all six machines of a job failed: frozen once by the follower, however often it looks."""
    scene.device_control.faults.profile = DeviceFaults(failure_rate=1.0)
    scene.tick()
    scene.decide()
    scene.execute()
    frozen = []
    for _ in range(4):
        scene.forward(30)
        scene.report()
        frozen += scene.reconcile().frozen
    assert frozen == [1]
    assert scene.rows("select cause, detail from smart_schedule_freezes") == [
        ["failed_share", {"failed": 6, "finished": 6}]
    ]
    assert (_told(scene), scene.value(_LIVE_LOCKS)) == ((1, 1), 0)
    assert _next(scene).outcome == "frozen"


def test_rejected_batches_freeze_by_what_execute_is_told(scene: Scene) -> None:
    """R6.1: batches that the service rejects are failed commands like any other."""
    scene.start(None, BLSFLOW_SCHEDULER_SWITCH_API_TOKEN="wrong", BLSFLOW_SCHEDULER_BATCH_SIZE="2")
    scene.tick()
    scene.decide()
    reports = scene.execute()
    assert [report.froze_policy for report in reports] == [False, False, True]
    assert scene.rows("select cause, detail from smart_schedule_freezes") == [
        ["failed_share", {"failed": 6, "finished": 6}]
    ]
    assert _told(scene) == (1, 1)


def test_half_of_them_is_not_more_than_half(scene: Scene) -> None:
    """R6.1: three of six refused is exactly the share that is allowed."""
    for machine in (1, 2, 3):
        scene.device_control._fences[machine] = 10_000
    scene.round()
    assert scene.rows(
        "select state, count(*) from smart_schedule_attempt_machines group by 1 order by 1"
    ) == [["refused", 3], ["succeeded", 3]]
    assert scene.rows(_OPEN) == []


def test_failures_from_before_a_lifted_freeze_are_forgiven(scene: Scene) -> None:
    """R6.3, R6.4: enabling starts all counts anew: the old failures do not freeze it again at the first new one."""
    scene.start(None, BLSFLOW_SCHEDULER_SWITCH_API_TOKEN="wrong")
    scene.tick()
    scene.decide()
    scene.execute()
    assert scene.rows(_OPEN) == [["failed_share"]]
    scene.forward(120)
    control.enable(scene.app.store, 1, by="op", why="token renewed")
    scene.device_control._fences[1] = 10_000
    scene.start()
    scene.forward(60)
    scene.report()
    scene.prices()
    scene.due()
    scene.round()
    assert scene.decisions() == {"switch/better_net": 6}
    assert scene.rows(_OPEN) == []


# ---------------------------------------------------------------- while frozen, and after


def test_a_frozen_policy_touches_nothing_while_its_jobs_are_followed(scene: Scene) -> None:
    """R6.2: frozen by hand after its batch was sent: the job is followed to its confirmed end, and nothing else is done."""
    scene.tick()
    scene.decide()
    scene.execute()
    assert control.freeze(scene.app.store, 1, by="op", why="storm").opened
    assert not control.freeze(scene.app.store, 1, by="op", why="again").opened
    for _ in range(3):
        scene.forward(60)
        scene.report()
        scene.prices(a=500, b=10)
        scene.due()
        scene.round()
    assert scene.rows("select state from smart_schedule_attempts") == [["succeeded"]]
    assert (scene.value(_LIVE_LOCKS), scene.posts()) == (0, [1])
    assert scene.value("select count(*) from smart_schedule_ticks") == 1
    assert scene.rows("select distinct status, project_id from machine_mining_runtime") == [
        ["mining", COIN_B]
    ]
    assert scene.rows("select distinct state, reason from smart_schedule_occurrences where id > 1") == [
        ["skipped", "frozen"]
    ]
    assert (_told(scene), scene.findings()) == ((1, 1), {})


def test_it_acts_by_itself_and_only_a_person_lifts_a_freeze(scene: Scene) -> None:
    """R1.3, R6.3: rounds need nobody; a freeze ends by no time, price or disabling, only by enabling, on the record."""
    scene.round()
    assert scene.decisions() == {"switch/better_net": 6}
    _without_prices(scene)
    for _ in range(3):
        _next(scene)
    scene.prices(a=50, b=81)
    for _ in range(3):
        assert _next(scene).outcome == "frozen"
    control.disable(scene.app.store, 1, by="op", why="tidy")
    assert scene.rows(_OPEN) == [["profit_unusable"]]
    done = control.enable(scene.app.store, 1, by="wang", why="the feed is back")
    assert done.lifted == "profit_unusable"
    assert scene.rows(
        "select lifted_by, lift_reason, lifted_at is not null, cause, detail from smart_schedule_freezes"
    ) == [["wang", "the feed is back", True, "profit_unusable", {"consecutive_failures": 3}]]
    ((params,),) = scene.rows(
        "select params from smart_schedule_log_events where code = 'policy_enabled' and params ->> 'by' = 'wang'"
    )
    assert (params["froze_for"], params["why"]) == ("profit_unusable", "the feed is back")
    assert _failures(scene) == 0
    scene.prices(a=120, b=81)
    assert _next(scene).outcome == "decided"
    assert scene.decisions() == {"switch/better_net": 6}
    assert _told(scene) == (1, 1)


def test_a_second_freeze_is_told_of_again(scene: Scene) -> None:
    """R6.3: once per freeze, not once per policy."""
    for _ in range(2):
        _without_prices(scene)
        for _ in range(4):
            _next(scene)
        control.enable(scene.app.store, 1, by="op", why="again")
    assert scene.value("select count(*) from smart_schedule_freezes") == 2
    assert _told(scene) == (2, 2)


def test_a_freeze_by_hand_that_races_one_of_the_scheduler_is_one(scene: Scene) -> None:
    """R6.3: an operator and a tick freeze in the same moment: one freeze, one notification."""
    scene.session.run(f"{_SET} max_move_share = 0.5")
    scene.tick()
    person = scene.process()
    at_once(scene.decide, lambda: control.freeze(person.store, 1, by="op", why="odd"))
    assert scene.value("select count(*) from smart_schedule_freezes") == 1
    assert _told(scene) == (1, 1)
    assert scene.posts() == []
    person.store.close()


def _window_policy(scene: Scene, *, starts: str, ends: str) -> None:
    scene.session.run(
        f"""
        insert into smart_schedule_policy_groups (tenant_id, name, mode, execution_mode, enabled, created_by, time_zone)
            values ('acme', 'nights', 'time_window', 'execute', true, 'test', 'UTC');
        insert into smart_schedule_policy_scopes values (2, 'cluster', '1');
        insert into smart_schedule_policy_windows (policy_id, starts, ends, action, project_id)
            values (2, '{starts}', '{ends}', 'run_project', 1)
        """
    )


@pytest.mark.parametrize("active", [True, False], ids=["in its window", "outside its window"])
def test_a_frozen_window_policy_keeps_others_off_its_machines_while_its_window_lasts(
    scene: Scene, *, active: bool
) -> None:
    """R3.6, R6.2: frozen means that nothing changes on its machines, by others' hands neither; outside, others decide."""
    now = scene.now()
    bounds = (
        ("00:00", "24:00") if active else (f"{(now.hour + 2) % 24:02}:00", f"{(now.hour + 3) % 24:02}:00")
    )
    _window_policy(scene, starts=bounds[0], ends=bounds[1])
    control.freeze(scene.app.store, 2, by="op", why="odd")
    _next(scene)
    assert scene.decisions() == ({"skip/overridden": 6} if active else {"switch/better_net": 6})
    assert scene.rows("select distinct overridden_by from smart_schedule_machine_decisions") == [
        [2 if active else None]
    ]


# ---------------------------------------------------------------- tariff gaps


def test_a_tariff_gap_is_told_once_and_again_after_it_was_solved(scene: Scene) -> None:
    """R2.2, R10.1: one notification when it appears, none while it lasts, another when it comes back."""
    scene.session.run(f"{_SET} freeze_after_failures = 99, execution_mode = 'shadow'")
    told = []
    for ends in ("24:00", "00:00:01", "00:00:01", "24:00", "00:00:01", "00:00:01"):
        scene.session.run(f"update cluster_tariff_periods set starts = '00:00', ends = '{ends}'")
        scene.prices()
        _next(scene)
        told.append(_told(scene, "tariff_unknown")[0])
    assert told == [0, 1, 1, 1, 2, 2]
    assert scene.value("select params from smart_schedule_outbox where code = 'tariff_unknown' limit 1") == {
        "cluster_id": 1,
        "problem": "tariff_gap",
    }


def test_a_gap_that_becomes_an_overlap_is_another_problem(scene: Scene) -> None:
    """R2.2, R10.1: what is told is the problem of the cluster; a different one is news."""
    scene.session.run(f"{_SET} freeze_after_failures = 99; delete from cluster_tariff_periods")
    _next(scene)
    scene.session.run(
        "insert into cluster_tariff_periods (id, tariff_id, name, starts, ends, price_per_kwh)"
        " select g, 1, 'p' || g, '00:00', '24:00', 0.3 from generate_series(1, 2) g"
    )
    scene.prices()
    _next(scene)
    problems = (
        "select params ->> 'problem' from smart_schedule_outbox where code = 'tariff_unknown' order by id"
    )
    assert scene.rows(problems) == [["tariff_gap"], ["tariff_overlap"]]
