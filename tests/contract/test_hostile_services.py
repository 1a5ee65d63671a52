"""Every outside service against every known way of being hostile: one table, so that no adapter is left out of a row."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.device_control import HttpDeviceControl
from blsflow.adapters.execution_service import HttpExecutionService
from blsflow.adapters.http import MAX_ANSWER_BYTES
from blsflow.adapters.profit import open_feed
from blsflow.domain.conversation import ConversationCommand, RunUnreadable
from blsflow.domain.execution import (
    Ambiguous,
    BatchCommand,
    CommandKind,
    JobUnreadable,
    MachineTarget,
    Rejected,
)
from blsflow.domain.prices import FeedFault, FeedUnavailable
from local.simulators.device_control import DeviceControlSimulator
from local.simulators.web import Served
from local.simulators.world import SimulatedMachine, World
from tests.contract.scripted_server import Scripted, ScriptedServer
from tests.contract.test_http import TEN_MEGABYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "canary-token"
TIMEOUT_SEC = 0.5
_NOW = datetime.now(UTC)

Ask = Callable[[str], object]


def _batch(expires_at: datetime = _NOW + timedelta(seconds=30)) -> BatchCommand:
    return BatchCommand(
        key="k",
        caller="acme",
        kind=CommandKind.SWITCH,
        project_id=1,
        run_config_id=1,
        targets=(MachineTarget(machine_id=1, fencing_token=1),),
        expires_at=expires_at,
    )


def _feed(kind: str) -> Ask:
    def ask(url: str) -> object:
        feed = open_feed(
            kind,
            base_url=url,
            api_key=TOKEN,
            timeout_sec=TIMEOUT_SEC,
            min_interval_sec=0,
            algorithms=("sha256",),
        )
        try:
            snapshot = feed.fetch()
        except FeedUnavailable as error:
            return error
        # A document of the right shape none of whose rows can be read is told row by row.
        return FeedUnavailable(FeedFault.WRONG_SHAPE, "no row") if not snapshot.prices else snapshot

    return ask


def _device(url: str) -> HttpDeviceControl:
    return HttpDeviceControl(url, TOKEN, TIMEOUT_SEC)


def _runs(url: str) -> HttpExecutionService:
    return HttpExecutionService(url, TOKEN, TIMEOUT_SEC)


_WHO = {"caller_tenant": "acme", "caller_subject": "ana", "key": "k"}
_START = ConversationCommand(
    key="k",
    caller_tenant="acme",
    caller_subject="ana",
    target="analyst",
    conversation_id="c1",
    prompt="what changed?",
    expires_at=_NOW + timedelta(seconds=30),
)

CALLS: dict[str, tuple[Ask, type]] = {
    "submit": (lambda url: _device(url).submit(_batch()), Ambiguous),
    "job": (lambda url: _device(url).read_back(caller="acme", key="k", job_id="j"), JobUnreadable),
    "job by key": (lambda url: _device(url).read_back(caller="acme", key="k", job_id=None), JobUnreadable),
    "start": (lambda url: _runs(url).start(_START), Ambiguous),
    "run": (lambda url: _runs(url).read_back(**_WHO, run_id="r"), RunUnreadable),
    "run by key": (lambda url: _runs(url).read_back(**_WHO, run_id=None), RunUnreadable),
    "contract feed": (_feed("contract"), FeedUnavailable),
    "whattomine": (_feed("whattomine"), FeedUnavailable),
    "minerstat": (_feed("minerstat"), FeedUnavailable),
}

_DEEP = b'{"job_id": "j", "run_id": "r", "prices": ' + b"[" * 20_000 + b"]" * 20_000 + b"}"
_TYPES = json.dumps(
    {
        "job_id": ["j"],
        "run_id": {"r": 1},
        "state": 7,
        "machines": "none",
        "refused": 1,
        "prices": {},
        "key": None,
    }
).encode()

HOSTILE: dict[str, Scripted] = {
    "says nothing": Scripted(body=b"{}", wait_sec=30),
    "drips": Scripted(body=b'"' + b"x" * 500 + b'"', drip_sec=0.05),
    "hangs up half way": Scripted(body=b'{"job_id": "j"', claim=1000),
    "another content type": Scripted(body=b'{"job_id": "j"}', content_type="text/html"),
    "no content type": Scripted(body=b'{"job_id": "j"}', content_type=None),
    "ten megabytes": Scripted(body=TEN_MEGABYTES),
    "compressed": Scripted(body=b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"}),
    "no JSON": Scripted(body=b"{'job_id': 'j'}"),
    "JSON with NaN": Scripted(body=b'{"job_id": NaN}'),
    "a name twice": Scripted(body=b'{"job_id": "j", "job_id": "k"}'),
    "deep JSON": Scripted(body=_DEEP),
    "other types": Scripted(body=_TYPES),
    "a list": Scripted(body=b"[1, 2, 3]"),
    "a bare number": Scripted(body=b"17"),
    "null": Scripted(body=b"null"),
    "not UTF-8": Scripted(body=b'{"job_id": "\xff\xfe"}'),
}


class _Anywhere(dict[str, Scripted]):
    """The same answer whatever the path."""

    def __init__(self, answer: Scripted) -> None:
        super().__init__()
        self._answer = answer

    def get(self, _path: str, _default: Any = None) -> Any:
        return self._answer


@contextmanager
def _service(answer: Scripted) -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        server.answers = _Anywhere(answer)
        yield server


@pytest.mark.parametrize("hostility", HOSTILE)
@pytest.mark.parametrize("call", CALLS)
def test_a_hostile_answer_is_a_value_in_bounded_time(call: str, hostility: str) -> None:
    """R2.1, R5.3, R8.11: it proves nothing, is asked for once, takes no more than its time, and shows no token."""
    ask, expected = CALLS[call]
    with _service(HOSTILE[hostility]) as server:
        began = time.monotonic()
        outcome = ask(server.url)
        took_sec = time.monotonic() - began
    assert isinstance(outcome, expected)
    assert took_sec < 10
    assert len([each for each in server.received if each.method == "POST"]) <= 1
    assert TOKEN not in f"{outcome!r} {outcome}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("call", CALLS)
def test_nobody_is_sent_to_another_host(call: str, status: int) -> None:
    """R1.1, R5.3: no request, token or command goes where an answer points."""
    ask, expected = CALLS[call]
    with (
        ScriptedServer() as other,
        _service(Scripted(status=status, headers={"Location": f"{other.url}/x"})) as server,
    ):
        outcome = ask(server.url)
        assert isinstance(outcome, expected)
        assert other.received == []
        assert len(server.received) == 1


def test_the_largest_answer_that_is_taken_is_one_that_a_full_batch_needs() -> None:
    """R5.2: ten thousand machines with their reasons fit below the limit of size."""
    rows = [{"machine_id": 10**9 + n, "state": "refused", "reason": "x" * 200} for n in range(10_000)]
    document = json.dumps({"job_id": "j", "state": "failed", "machines": rows}).encode()
    assert len(document) < MAX_ANSWER_BYTES


# ---------------------------------------------------------------- clocks that differ


@contextmanager
def _device_control(ahead: timedelta) -> Iterator[tuple[DeviceControlSimulator, HttpDeviceControl]]:
    """A device-control service whose clock is that far ahead of ours."""
    world = World(
        [SimulatedMachine(machine_id=1, hashrate_hs=1e14, power_w=3000.0, project_id=2)],
        now=lambda: datetime.now(UTC) + ahead,
    )
    simulator = DeviceControlSimulator(world, token=TOKEN)
    with Served(simulator) as served:
        yield simulator, HttpDeviceControl(served.url, TOKEN, 5)


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
def test_a_service_with_another_clock_executes_or_refuses_and_says_which(hours: int) -> None:
    """R5.3: a clock ahead refuses what has expired by it, definitely; one behind takes it, once. Neither is unclear."""
    with _device_control(timedelta(hours=hours)) as (simulator, client):
        outcome = client.submit(_batch(datetime.now(UTC) + timedelta(seconds=15)))
        executed = sum(entry.executions for entry in simulator._ledger.values())
    if hours > 0:
        assert isinstance(outcome, Rejected)
        assert outcome.reason == "expired"
        assert executed == 0
    else:
        assert not isinstance(outcome, Rejected | Ambiguous)
        assert executed == 1
