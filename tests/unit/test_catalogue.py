"""The catalogue and the code hold each other complete: every code has a text, every text a code (R9.4)."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import get_args

import pytest

from blsflow.domain.catalogue import PLACE, Placeholder, Texts, catalogue, placeholders
from blsflow.domain.shown_values import KINDS
from blsflow.domain.tariff import TariffProblemKind
from tests.told_codes import Site, UnreadableSiteError, modules, statements, told_messages, told_words

SQL = statements()
PYTHON = modules()
MESSAGES = sorted(catalogue().messages.items())
CODES = {
    "reason",
    "cause",
    "state",
    "action",
    "waiting_for",
    "failure",
    "problem",
    "step",
    "restore_status",
    "is",
}
"""Parameters that hold codes where they are told."""
FREE_CAUSES = {"schedule_broken", "policy_invalid"}
"""Here a cause is a sentence about a document."""


@cache
def written() -> list[Site]:
    """The places of the product that write an event or a notification."""
    return told_messages(SQL, PYTHON)


@cache
def called() -> dict[str, str]:
    """The words that the product uses."""
    return told_words(SQL, PYTHON)


def test_every_message_has_a_text_and_every_text_a_message() -> None:
    """R9.4: a code that is written anywhere, in SQL or in Python, has texts; a text that nothing writes is none."""
    assert {site.code for site in written()} == set(catalogue().messages)


def test_every_word_has_a_text_and_every_text_a_word() -> None:
    """R9.4: actions, reasons, causes and states are all called something in both languages, and no text is left over."""
    found = called()
    assert {code: where for code, where in found.items() if code not in catalogue().words} == {}
    assert set(catalogue().words) - set(found) == set()


@pytest.mark.parametrize(("code", "texts"), MESSAGES, ids=[code for code, _ in MESSAGES])
def test_a_text_says_in_both_languages_what_its_code_carries(code: str, texts: Texts) -> None:
    """R9.4: the same parameters in both languages, shown alike, and all of them are written with the code."""
    places = set(placeholders(texts.en))
    assert places == set(placeholders(texts.zh))
    assert {place.kind for place in places} <= set(KINDS)
    sites = [site for site in written() if site.code == code]
    for site in sites:
        missing = {place.name for place in places if not place.optional} - site.required
        assert not missing, f"{site.where} does not write {missing}: put them into brackets, or write them"
    carried = {name for site in sites for name in site.required | site.optional}
    assert {place.name for place in places} <= carried
    if code not in FREE_CAUSES:
        assert {place.kind for place in places if place.name in CODES} <= {"code"}


@pytest.mark.parametrize(("code", "texts"), MESSAGES, ids=[code for code, _ in MESSAGES])
def test_a_text_is_well_formed(code: str, texts: Texts) -> None:
    """R9.4: what looks like a place is one, in either language; a translator's slip is found here and not by a reader."""
    for text in (texts.en, texts.zh):
        rest = PLACE.sub("", re.sub(r"\[([^\[\]]*)\]", r"\1", text))
        assert not set("{}[]") & set(rest), f"{code}: {text}"
        assert all(
            any(place.optional for place in placeholders(part)) for part in re.findall(r"\[.*?\]", text)
        )
    assert re.search(r"[\u4e00-\u9fff]", texts.zh)
    assert texts.en.isascii()


def test_every_finding_of_readiness_has_a_text_and_every_text_a_finding() -> None:
    """R9.1, R9.4: in both languages, from the parameters that the finding carries."""
    params: dict[str, set[str]] = {"policy_archived": set(), "sampling_off": set()}  # of a benchmark run
    for call in ast.walk(ast.parse(PYTHON["flow/readiness.py"])):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in {"_error", "_warning"}:
            for code in _finding_codes(call.args[0]):
                params.setdefault(code, set()).update(each.arg for each in call.keywords if each.arg)
    assert set(params) == set(catalogue().findings)
    for code, texts in catalogue().findings.items():
        places = set(placeholders(texts.en))
        assert places == set(placeholders(texts.zh)), code
        assert {place.name for place in places if not place.optional} <= params[code], code
        assert texts.en.isascii()
        assert re.search(r"[\u4e00-\u9fff]", texts.zh)


def _finding_codes(code: ast.expr) -> list[str]:
    """The codes that a call may tell: its own, or each of a closed list."""
    match ast.unparse(code):
        case "f'price_{price.state}'":
            return ["price_stale", "price_unknown"]
        case "trouble.kind":
            return list(get_args(TariffProblemKind))
        case _:
            return [ast.literal_eval(code)]


def test_words_are_words_in_their_language() -> None:
    """R9.4: an English word is not left in Chinese texts, nor the other way round."""
    for code, texts in catalogue().words.items():
        assert re.search(r"[\u4e00-\u9fff]", texts.zh), code
        assert texts.en.isascii(), code
        assert texts.en, code


def _with(sql: str) -> dict[str, str]:
    return {**SQL, "new.sql": f"-- name: new\n-- Something new.\n{sql}"}


def test_a_new_code_in_sql_is_found() -> None:
    """R9.4: an event that a statement writes, directly, by case, or for a list of alerts, is not overlooked."""
    told = _with(
        """with x as (
            insert into smart_schedule_log_events (at, tenant_id, code, params)
            select now(), t, 'brand_new', jsonb_build_object('figure', coalesce(a, 'b, (')) from y where z = ','
            union all
            select now(), t, case f(x) when 'no_code' then 'one_way' else 'or_another' end, jsonb_build_object('a', 1) from y
        )
        insert into smart_schedule_outbox (tenant_id, code, params)
        select t, 'attempt_' || alert, jsonb_build_object() from x"""
    )
    before = {site.code for site in written()}
    new = [site for site in told_messages(told, PYTHON) if site.where.startswith("new.sql")]
    assert {site.code for site in new} - before == {"brand_new", "one_way", "or_another"}
    assert {site.code for site in new} & before == {"attempt_unresolved", "attempt_unreachable"}
    assert next(site for site in new if site.code == "brand_new").required == {"figure"}


def test_a_new_reason_in_sql_is_found() -> None:
    """R9.4: a reason or state that only a statement gives is a word too, and a condition's is not its outcome."""
    told = _with(
        """with x as (
            update a set reason = case when b = 'no_word' then 'by_chance' else coalesce(c, 'by_default') end, d = 'x'),
        y as (insert into smart_schedule_occurrences (id, state, reason) select 1, 'skipped', 'at_birth' from x)
        select jsonb_build_object('cause', 'as_told')"""
    )
    assert set(told_words(told, PYTHON)) - set(called()) == {
        "by_chance", "by_default", "at_birth", "as_told",
    }  # fmt: skip


def test_a_new_code_in_python_is_found() -> None:
    """R9.4: an event or a reason that Python gives is found with its parameters, also those that come only sometimes."""
    module = """
def _event(failure):
    params = {"a": 1, **({} if failure is None else {"b": failure})}
    Waiting(reason="for_nothing")
    return LogEvent(tenant_id="t", code="said" if failure else "meant", params=params)

def _objection(row):
    return "not_today" if row else None
"""
    told = {**PYTHON, "new.py": module}
    new = [site for site in told_messages(SQL, told) if site.where.startswith("new.py")]
    assert {(site.code, site.required, site.optional) for site in new} == {
        (code, frozenset({"a"}), frozenset({"b"})) for code in ("said", "meant")
    }
    assert set(told_words(SQL, told)) - set(called()) == {"for_nothing", "not_today"}


@pytest.mark.parametrize(
    "insert",
    [
        "(at, tenant_id, code, params) select now(), t, x.what, jsonb_build_object('a', 1) from x",
        "(at, tenant_id, code, params) select now(), t, 'a', x.params from x",
        "(at, tenant_id, code, params) select now(), t, 'a', jsonb_build_object(name, 1) from x",
        "(at, tenant_id, code) select now(), t, 'a' from x",
        "(at, tenant_id, code, params) values (now(), t, 'a', jsonb_build_object('a', 1))",
    ],
)
def test_a_statement_that_cannot_be_read_is_no_way_around(insert: str) -> None:
    """R9.4: a code or parameters that are not in the source as they are told fail the check, instead of passing it."""
    with pytest.raises(UnreadableSiteError):
        told_messages({"new.sql": f"-- name: new\ninsert into smart_schedule_log_events {insert}"}, {})


@pytest.mark.parametrize(
    "call", ["code=what, params={}", "code='a', params=dict(b=1)", "code='a', params={**others}"]
)
def test_python_that_cannot_be_read_is_no_way_around(call: str) -> None:
    """R9.4: likewise for events that Python writes."""
    module = f"def f(what, others):\n    return LogEvent(tenant_id='t', {call})\n"
    with pytest.raises(UnreadableSiteError):
        told_messages({}, {"new.py": module})


def test_brackets_make_their_places_optional() -> None:
    """R9.4: a place in brackets may have nothing to show; outside of them it always has."""
    assert set(placeholders("a {b} [c {d:time}]{e}")) == {
        Placeholder("b", "plain", optional=False),
        Placeholder("d", "time", optional=True),
        Placeholder("e", "plain", optional=False),
    }
