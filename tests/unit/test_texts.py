"""Texts of events and notifications: readable with any parameters, in both languages (R9.4)."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.catalogue import catalogue, placeholders, word
from blsflow.domain.texts import render


def test_an_event_reads_as_a_sentence() -> None:
    """R9.4: codes among the parameters are words of the language, figures have their units."""
    texts = render(
        "tick_decided",
        {
            "machines": 40,
            "counts": {"skip/offline": 10, "keep/already_best": 30},
            "attempts": 0,
            "gain_cny_per_day": 12345.678,
        },
    )
    assert texts.en == (
        "Decided for 40 machine(s): 30 keep (no candidate nets more than what the machine runs); "
        "10 skip (the machine's reports are missing, too old, or from the future). "
        "Batches to send: 0; expected gain 12,345.68 CNY/day."
    )
    assert texts.zh == (
        "已为 40 台机器做出决策：30 保持（没有候选项目净收益更高）；10 跳过（机器的上报缺失、过旧或来自未来）。"
        "待发送批次：0；预期收益 12,345.68 元/天。"
    )


@pytest.mark.parametrize("absent", [{}, {"gain_cny_per_day": None}, {"gain_cny_per_day": math.nan}])
def test_what_is_not_known_is_said_to_be_unknown(absent: dict[str, object]) -> None:
    """R9.4: a parameter that is not there, or says nothing, is visibly unknown and never 0."""
    texts = render("tick_decided", {"machines": 1, "counts": {"keep/window": 1}, "attempts": 0, **absent})
    assert texts.en.endswith("expected gain unknown.")
    assert texts.zh.endswith("预期收益 未知。")


def test_a_part_with_nothing_to_say_is_left_out() -> None:
    """R9.4: what comes only sometimes is shown only then; a known 0 is shown."""
    frozen = {"cause": "move_share", "moves": 0, "machines": 9}
    assert render("policy_frozen", frozen).en == (
        "The policy is frozen: too large a share of the machines would move at once; machines to move: 0 of 9. "
        "Nothing is sent until it is enabled again."
    )
    assert "refused" not in render("job_accepted", {"job_id": "j", "refused": {}}).en


@pytest.mark.parametrize(
    "hostile", ["{machines}", "{0.__class__}", "%s", "[x]", "{why", "]", "\\g<0>", "\\1"]
)
def test_a_value_is_shown_and_never_interpreted(hostile: str) -> None:
    """R9.4: what a person typed stands in the text as it was typed, whatever it looks like."""
    texts = render("policy_disabled", {"by": "op", "why": hostile})
    assert f"by op: {hostile}. What" in texts.en
    assert f"停用：{hostile}。" in texts.zh


def test_a_reason_that_a_person_gave_is_not_translated() -> None:
    """R9.4: "stop" is a word of ours only where a code stands."""
    assert "：stop。" in render("policy_disabled", {"by": "op", "why": "stop"}).zh


def test_a_text_is_one_line_of_bounded_length() -> None:
    """R9.4: line breaks and control characters do not forge further log lines, and a novel is cut."""
    texts = render("policy_disabled", {"by": "a\nb\x1b[31m\u2028c", "why": "w" * 10_000})
    assert "\n" not in texts.en
    assert "\x1b" not in texts.en
    assert "by a b [31m c:" in texts.en
    assert len(texts.en) < 700


def test_machines_stand_with_their_reason() -> None:
    """R9.4: failures are grouped by reason, and a long list says how much longer it is."""
    texts = render("machines_settled", {"action": "stop", "succeeded": 0, "failed": 41,
                   "failures": {str(n): "unconfirmed" for n in range(1, 42)}})  # fmt: skip
    assert "failed: the machine did not confirm it in time (1, 2, 3" in texts.en
    assert texts.en.endswith("20, and 21 more).")
    assert "等另外 21 项" in texts.zh


def test_times_are_utc_and_say_so() -> None:
    """R9.4: a time of whatever offset is shown in UTC, and what is no time is shown as it is."""

    def told(planned_at: object) -> str:
        params = {"schedule_id": 1, "reason": "frozen", "planned_at": planned_at}
        return render("run_skipped", params).en

    assert "planned for 2026-03-07 23:00:05 UTC was" in told("2026-03-08T07:00:05.5+08:00")
    assert "planned for 2026-03-08 07:00:00 UTC was" in told(datetime(2026, 3, 8, 7, tzinfo=UTC))
    assert "planned for soon was" in told("soon")
    assert "planned for 2026-03-08T07:00:00 was" in told("2026-03-08T07:00:00"), "of no known offset"


def test_a_code_without_a_text_is_shown_as_it_is_stored() -> None:
    """R9.4: an event of an older or newer version is readable too: its code, with its parameters."""
    texts = render("from_the_future", {"a": [1, {"b": None}], "c": True})
    assert texts.en == "from_the_future: a: 1, b: unknown, c: yes"
    assert texts.zh == "from_the_future: a: 1、b: 未知、c: 是"
    assert render("from_the_future", {}).en == "from_the_future"
    assert word("never_heard_of").zh == "never_heard_of"


def test_a_figure_beyond_all_measure_is_no_obstacle() -> None:
    """R9.4: PostgreSQL stores numbers that Python will not print; the text is made all the same."""
    texts = render("tick_decided", {"machines": 10**6000, "gain_cny_per_day": 10**6000})
    assert texts.en.startswith("Decided for … machine(s)")
    assert texts.en.endswith("gain ….")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.datetimes()
    | st.sampled_from(sorted(catalogue().words)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip
_NAMES = sorted({place.name for texts in catalogue().messages.values() for place in placeholders(texts.en)})


@given(
    code=st.sampled_from([*sorted(catalogue().messages), "of_no_text"]),
    params=st.dictionaries(st.sampled_from(_NAMES), _VALUES),
)
def test_rendering_never_fails(code: str, params: dict[str, object]) -> None:
    """R9.4: whatever the parameters hold, both texts say something in one line that can be shown and stored."""
    texts = render(code, params)
    for text in (texts.en, texts.zh):
        assert text.strip()
        assert len(text.splitlines()) == 1
        text.encode()
