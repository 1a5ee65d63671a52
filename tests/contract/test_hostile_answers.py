"""Answers and documents made to trip: every one of them comes back as a value or a refusal that names the field."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.device_control import HttpDeviceControl
from blsflow.adapters.http import HttpFailure, HttpFault, JsonHttp
from blsflow.adapters.profit import open_feed
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.execution import JobUnreadable
from blsflow.domain.freeze import freeze_for
from blsflow.domain.history import HistoryQuery, decode_cursor
from blsflow.domain.policy import Mode, Policy
from blsflow.settings import InvalidSetting, read_settings
from tests.contract.scripted_server import Scripted, ScriptedServer, json_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

EDGES_OF_TIME = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
GOOD = {"key": "BTC", "algorithm": "SHA-256", "revenue": 0.08, "unit": "TH/s", "flags": []}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that answers as told."""
    with ScriptedServer() as started:
        yield started


def _snapshot(server: ScriptedServer, **changes: object) -> Scripted:
    document = {
        "taken_at": "2026-03-01T12:00:00Z",
        "currency": "USDT",
        "flags": [],
        "prices": [GOOD],
        **changes,
    }
    answer = json_answer(document)
    server.answers["/v1/profit-snapshot"] = answer
    return answer


@pytest.mark.parametrize("location", ["http://[::1/", "http://[", "//[x"])
def test_a_redirect_to_no_address_at_all_is_a_redirect(server: ScriptedServer, location: str) -> None:
    """R5.3: it is not followed, and not stumbled over."""
    server.answers["/x"] = Scripted(status=302, headers={"Location": location})
    with pytest.raises(HttpFailure) as failure:
        JsonHttp(server.url, timeout_sec=2).request("GET", "/x")
    assert failure.value.fault is HttpFault.REDIRECTED


@pytest.mark.parametrize("moment", EDGES_OF_TIME)
def test_a_price_from_the_edge_of_time_costs_its_own_row(server: ScriptedServer, moment: str) -> None:
    """R2.1: one row that cannot be meant spoils no other."""
    _snapshot(server, prices=[GOOD, {**GOOD, "key": "LTC", "taken_at": moment}])
    feed = open_feed("contract", base_url=server.url, api_key=None, timeout_sec=2, min_interval_sec=0)
    snapshot = feed.fetch()
    assert [price.key for price in snapshot.prices] == ["BTC"]
    assert [row.key for row in snapshot.rejected] == ["LTC"]


@pytest.mark.parametrize(
    "change", [{"key": "L\x00TC"}, {"key": "L" * 5000}, {"key": "\ud800"}, {"unit": "TH\x00/s"}]
)
def test_a_text_that_no_database_keeps_costs_its_own_row(
    server: ScriptedServer, change: dict[str, str]
) -> None:
    """R2.1: the good prices beside it are kept, and the rejection can be."""
    _snapshot(server, prices=[GOOD, {**GOOD, "key": "LTC", **change}])
    feed = open_feed("contract", base_url=server.url, api_key=None, timeout_sec=2, min_interval_sec=0)
    snapshot = feed.fetch()
    assert [price.key for price in snapshot.prices] == ["BTC"]
    (rejected,) = snapshot.rejected
    assert f"{rejected.key}{rejected.field}{rejected.cause}".isprintable()


def test_a_flag_that_cannot_be_shown_is_a_flag_all_the_same(server: ScriptedServer) -> None:
    """R2.1: monitoring's word counts however it is written."""
    _snapshot(server, flags=["\x00\ud800"])
    feed = open_feed("contract", base_url=server.url, api_key=None, timeout_sec=2, min_interval_sec=0)
    snapshot = feed.fetch()
    assert snapshot.flags == ("unnamed",)
    assert snapshot.prices[0].flags == ("unnamed",)


def test_a_report_that_names_a_machine_twice_is_not_believed(server: ScriptedServer) -> None:
    """R5.7: which of two words is meant nobody knows; the attempt is read back again."""
    rows = [{"machine_id": 1, "state": "succeeded"}, {"machine_id": 1, "state": "failed"}]
    server.answers["/v1/jobs/j"] = json_answer({"job_id": "j", "state": "succeeded", "machines": rows})
    report = HttpDeviceControl(server.url, "t", 2).read_back(caller="acme", key="k", job_id="j")
    assert report == JobUnreadable(cause="the answer names a machine twice")


@pytest.mark.parametrize("moment", EDGES_OF_TIME)
def test_history_refuses_the_edges_of_time(moment: str) -> None:
    """R8.12: a cursor or a filter that no clock shows is refused by its name."""
    cursor = base64.urlsafe_b64encode(json.dumps([moment, 1]).encode()).decode()
    with pytest.raises(InvalidDocument) as refusal:
        decode_cursor(cursor)
    assert refusal.value.field == "cursor"
    with pytest.raises(InvalidDocument) as refusal:
        HistoryQuery(since=datetime.fromisoformat(moment))
    assert refusal.value.field == "since"


@pytest.mark.parametrize(
    "url", ["http://user:canary@host", "ftp://user:canary@host", "http://user:canary@host:99999"]
)
def test_an_address_with_a_password_is_refused_unseen(url: str) -> None:
    """R11.7, R11.3: credentials have settings of their own, and none is printed."""
    with pytest.raises(InvalidSetting) as refusal:
        read_settings({"BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": url})
    assert "canary" not in str(refusal.value)


def test_a_jump_beyond_all_measure_can_be_told() -> None:
    """R6.1: the freeze that it causes can be written."""
    policy = Policy(id=1, tenant_id="t", name="p", mode=Mode.PROFIT_GUARD, freeze_jump_factor=100.0)
    freeze = freeze_for(policy, worst_jump=float("inf"))
    assert freeze is not None
    assert json.dumps(dict(freeze.detail), allow_nan=False)
