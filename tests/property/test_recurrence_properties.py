"""What holds for every rule in every zone."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import example, given, settings
from hypothesis import strategies as st

from blsflow.domain.errors import InvalidExecutionRequest
from blsflow.domain.local_time import clock_changes, resolve_wall
from blsflow.domain.recurrence import (
    Cron,
    Daily,
    Interval,
    Monthly,
    Once,
    Rule,
    Weekly,
    missed_between,
    next_run,
    parse_rule,
    preview,
    to_document,
)

ZONES = [
    "America/Sao_Paulo", "Asia/Beirut", "Africa/Cairo", "Australia/Lord_Howe", "Europe/Moscow", "America/New_York",
    "Europe/Berlin", "Asia/Shanghai", "Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca", "America/St_Johns",
    "Europe/Dublin", "America/Santiago", "UTC",
]  # fmt: skip
SPAN = (datetime(2005, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
# The instants at which each zone moved its clock: most runs of a random rule are far from any.
CHANGES = {zone: list(clock_changes(*SPAN, ZoneInfo(zone))) for zone in ZONES}
EXPRESSIONS = [
    "*/5 * * * *", "30 * * * *", "0 */2 * * *", "30 2 * * *", "0 0 * * *", "0 2,3 * * *", "*/20 0-3 * * *",
    "59 23 * * *", "0 6 * * 1", "0 0 31 * *", "0 3 L * *", "15 1 29 2 *", "0 0 1 * 0", "* * * * *",
]  # fmt: skip

clocks = st.builds(time, st.integers(0, 4) | st.integers(0, 23), st.sampled_from([0, 1, 15, 30, 45, 59]))


def calendar_rules(zone: str) -> st.SearchStrategy[Rule]:
    """Rules that name local times."""
    named = st.just(zone)
    return st.one_of(
        st.builds(Daily, time_of_day=clocks, time_zone=named),
        st.builds(
            Weekly, weekdays=st.frozensets(st.integers(1, 7), min_size=1), time_of_day=clocks, time_zone=named
        ),
        st.builds(Monthly, day=st.integers(1, 31) | st.just("last"), time_of_day=clocks, time_zone=named),
        st.builds(Cron, expression=st.sampled_from(EXPRESSIONS), time_zone=named),
    )


def other_rules(zone: str) -> st.SearchStrategy[Rule]:
    """Rules that name instants, or one local time."""
    named, walls = st.just(zone), st.datetimes(datetime(2005, 1, 1), datetime(2027, 1, 1))  # noqa: DTZ001
    aware = st.datetimes(datetime(2005, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
    return st.one_of(
        st.builds(Interval, every_sec=st.integers(1, 200_000), time_zone=named, anchor=aware),
        st.builds(Once, at=walls | aware, time_zone=named),
    )


@st.composite
def calendar_cases(draw: st.DrawFn) -> tuple[Rule, datetime]:
    """A calendar rule and an instant, near a change of its zone's clock if it has any."""
    zone = draw(st.sampled_from(ZONES))
    near = st.sampled_from(CHANGES[zone]) if CHANGES[zone] else st.just(SPAN[0])
    offset = timedelta(seconds=draw(st.integers(-100_000, 100_000) | st.integers(-7300, 7300)))
    micro = timedelta(microseconds=draw(st.sampled_from([0, 0, 1, 999_999])))
    return draw(calendar_rules(zone)), draw(near) + offset + micro


@st.composite
def any_cases(draw: st.DrawFn) -> tuple[Rule, datetime]:
    """Any rule and an instant."""
    rule, after = draw(calendar_cases())
    return draw(st.just(rule) | other_rules(rule.time_zone)), after


@settings(max_examples=150, deadline=None)
@given(any_cases(), st.floats(0, 1, exclude_max=True))
def test_every_instant_before_the_next_run_has_the_same_next(
    case: tuple[Rule, datetime], fraction: float
) -> None:
    """R8.2: whatever lies in [t, next(t)) has the same next run, its last microsecond included."""
    rule, after = case
    planned = next_run(rule, after)
    if planned is None:
        assert next_run(rule, after + timedelta(days=400)) is None
        return
    assert planned > after
    between = after + (planned - after) * fraction
    assert next_run(rule, min(between, planned - timedelta.resolution)) == planned
    assert next_run(rule, planned - timedelta.resolution) == planned


@settings(max_examples=150, deadline=None)
@given(any_cases())
def test_runs_strictly_increase_and_agree_with_next_run(case: tuple[Rule, datetime]) -> None:
    """R8.2: next strictly increases, and a preview is next_run repeated."""
    rule, after = case
    planned = [run.at for run in preview(rule, after, 40)]
    assert all(a < b for a, b in pairwise([after, *planned]))
    at = after
    walked: list[datetime] = []
    while len(walked) < 40 and (following := next_run(rule, at)) is not None:
        walked.append(following)
        at = following
    assert walked == planned


@settings(max_examples=200, deadline=None)
@given(calendar_cases())
def test_no_calendar_rule_runs_twice_for_one_local_time(case: tuple[Rule, datetime]) -> None:
    """R8.2: the local times of successive runs strictly increase, so none comes twice (intervals count elapsed time)."""
    rule, after = case
    zone = ZoneInfo(rule.time_zone)
    # From before the neighbouring hour, so that both passes of a repeated one are in view.
    found = preview(rule, after - timedelta(hours=2), 60)
    shown = [run.at.astimezone(zone).replace(tzinfo=None) for run in found]
    assert all(a < b for a, b in pairwise(shown))
    assert all(a.wall < b.wall for a, b in pairwise(found))
    for run, local in zip(found, shown, strict=True):
        assert (run.mark == "moved") == (run.wall != local)
        assert run.wall <= local


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ZONES), st.data())
def test_every_local_time_of_a_cron_rule_runs_around_a_clock_change(zone: str, data: st.DataObject) -> None:
    """R8.2: around a change, the runs are exactly the instants of the named local times, the skipped ones moved."""
    change = data.draw(st.sampled_from(CHANGES[zone] or [SPAN[0]]))
    start, end = change - timedelta(hours=5), change + timedelta(hours=30)
    rule = Cron(
        expression=data.draw(st.sampled_from(["*/5 * * * *", "30 * * * *", "*/20 0-3 * * *"])), time_zone=zone
    )
    minutes = {"*/5 * * * *": 5, "30 * * * *": 60, "*/20 0-3 * * *": 20}[rule.expression]
    first = 30 if minutes == 60 else 0
    place = ZoneInfo(zone)
    wall = (start - timedelta(days=2)).replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
    walls = [wall + timedelta(minutes=first + step * minutes) for step in range(6 * 24 * 60 // minutes)]
    named = [wall for wall in walls if minutes != 20 or wall.hour < 4]
    expected = sorted({at for wall in named if start < (at := resolve_wall(wall, place).at) <= end})
    planned, at = [], start
    while (following := next_run(rule, at)) is not None and following <= end:
        planned.append(following)
        at = following
    assert planned == expected


@settings(max_examples=100, deadline=None)
@given(any_cases(), st.integers(0, 300_000))
def test_what_was_missed_is_what_would_have_run(case: tuple[Rule, datetime], seconds: int) -> None:
    """R8.5: the count of missed runs is the number of runs in (after, now], and adds up over a split."""
    rule, after = case
    now = after + timedelta(seconds=seconds)
    walked = [run.at for run in preview(rule, after, 1000) if run.at <= now]
    if len(walked) < 1000:
        assert missed_between(rule, after, now) == len(walked)
        middle = after + (now - after) / 2
        assert missed_between(rule, after, middle) + missed_between(rule, middle, now) == len(walked)


@settings(max_examples=100, deadline=None)
@given(any_cases())
def test_a_rule_survives_its_document(case: tuple[Rule, datetime]) -> None:
    """R8.2: a rule that is stored and read again is the same rule."""
    rule, _ = case
    assert parse_rule(to_document(rule)) == rule


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="0123456789*/,-#LWMONSUFEB ²١", max_size=20) | st.text(max_size=10))
@example("0 0 31 2 MON")
@example("0 0 LW * */7")
def test_any_text_is_a_cron_rule_that_runs_or_is_refused(text: str) -> None:
    """R8.2: no expression is accepted that later fails or never runs."""
    rule = _accepted({"kind": "cron", "expression": text, "time_zone": "Europe/Berlin"})
    assert rule is None or len(preview(rule, SPAN[1], 3)) == 3


def _accepted(document: dict[str, object]) -> Rule | None:
    try:
        return parse_rule(document)
    except InvalidExecutionRequest:
        return None
