"""What every price feed does when its service fails: the same reasons, whichever feed it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.profit import open_feed
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.prices import FeedFault, FeedUnavailable
from tests.contract.profit_feeds import (
    contract_price,
    contract_snapshot,
    minerstat_coin,
    wtm_bitcoin,
    wtm_coin,
)
from tests.contract.scripted_server import Scripted, ScriptedServer, json_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.profit import Feed

FEEDS: dict[str, dict[str, Any]] = {
    "contract": {"kind": "contract"},
    "whattomine": {"kind": "whattomine"},
    "calculate": {"kind": "whattomine", "algorithms": ("kheavyhash",)},
    "minerstat": {"kind": "minerstat"},
}
GOOD: dict[str, dict[str, object]] = {
    "contract": {"/v1/profit-snapshot": contract_snapshot(contract_price(key="KAS"))},
    "whattomine": {
        "/asic.json": {"coins": {"Bitcoin": wtm_bitcoin(), "Kaspa": wtm_coin()}},
        "/coins.json": {"coins": {}},
    },
    "calculate": {"/api/v1/calculate": [{"tag": "KAS", "name": "Kaspa", "revenue": "1.00"}]},
    "minerstat": {"/v2/coins": [minerstat_coin()]},
}
ALL_FEEDS = pytest.mark.parametrize("name", FEEDS)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that each test tells what to answer."""
    with ScriptedServer() as running:
        yield running


def opened(name: str, server: ScriptedServer, timeout_sec: float = 10.0) -> Feed:
    """Open a feed against the server."""
    return open_feed(
        **FEEDS[name], base_url=server.url, api_key="k3y", timeout_sec=timeout_sec, min_interval_sec=60
    )


def answer_with(name: str, server: ScriptedServer, answer: Scripted) -> None:
    """Let everything that the feed asks for be answered this way."""
    server.answers |= dict.fromkeys(GOOD[name], answer)


def failure_of(feed: Feed) -> FeedUnavailable:
    """Return the failure that fetching ends in."""
    with pytest.raises(FeedUnavailable) as failure:
        feed.fetch()
    return failure.value


@ALL_FEEDS
def test_a_good_answer_is_a_snapshot(name: str, server: ScriptedServer) -> None:
    """R2.1: each feed reads its own service's answer into prices, and names itself."""
    server.answers |= {path: json_answer(document) for path, document in GOOD[name].items()}
    feed = opened(name, server)
    snapshot = feed.fetch()
    assert "KAS" in {price.key for price in snapshot.prices}
    assert snapshot.rejected == ()
    assert snapshot.source == feed.source
    assert feed.min_interval_sec == 60


@ALL_FEEDS
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, FeedFault.UNAUTHORIZED),
        (403, FeedFault.UNAUTHORIZED),
        (402, FeedFault.QUOTA_EXHAUSTED),
        (429, FeedFault.QUOTA_EXHAUSTED),
        (404, FeedFault.HTTP_STATUS),
        (500, FeedFault.HTTP_STATUS),
        (520, FeedFault.HTTP_STATUS),
    ],
)
def test_a_refusal_is_told_by_its_reason(
    name: str, server: ScriptedServer, status: int, reason: FeedFault
) -> None:
    """R2.1: a wrong key, an exhausted quota and a failing service are told apart, and the status is kept."""
    answer_with(name, server, Scripted(status=status, body=b"no", content_type="text/plain"))
    failure = failure_of(opened(name, server))
    assert failure.reason is reason
    assert str(status) in failure.detail


@ALL_FEEDS
def test_a_slow_service_is_given_up(name: str, server: ScriptedServer) -> None:
    """R2.1: a feed that does not answer in time is unavailable, after that time."""
    answer_with(name, server, Scripted(body=b"{}", wait_sec=30))
    began = time.monotonic()
    assert failure_of(opened(name, server, timeout_sec=0.3)).reason is FeedFault.TIMEOUT
    assert time.monotonic() - began < 3


@ALL_FEEDS
def test_no_service_is_a_failed_connection(name: str) -> None:
    """R2.1: a feed that cannot be reached is unavailable."""
    with ScriptedServer() as gone:
        feed = opened(name, gone)
    assert failure_of(feed).reason is FeedFault.CONNECTION


@ALL_FEEDS
def test_ten_megabytes_are_not_taken(name: str, server: ScriptedServer) -> None:
    """R2.1: an answer of no plausible size is refused."""
    answer_with(name, server, Scripted(body=b"[" + b"1," * 5_000_000 + b"1]"))
    assert failure_of(opened(name, server)).reason is FeedFault.TOO_LARGE


@ALL_FEEDS
def test_a_redirect_to_another_host_is_not_followed(name: str, server: ScriptedServer) -> None:
    """R2.1: the key goes to nobody but the configured service."""
    with ScriptedServer() as other:
        answer_with(name, server, Scripted(status=302, headers={"Location": other.url + "/v2/coins"}))
        assert failure_of(opened(name, server)).reason is FeedFault.REDIRECTED
        assert other.received == []


@ALL_FEEDS
@pytest.mark.parametrize(
    "answer",
    [
        Scripted(body=b"<html>maintenance</html>", content_type="text/html"),
        Scripted(body=b"[]", content_type="text/plain"),
        Scripted(body=b"{broken"),
        Scripted(body=b""),
    ],
    ids=["html", "plain", "broken", "empty"],
)
def test_what_is_no_json_is_refused(name: str, server: ScriptedServer, answer: Scripted) -> None:
    """R2.1: a page that a proxy puts in the place of the answer is no snapshot."""
    answer_with(name, server, answer)
    assert failure_of(opened(name, server)).reason is FeedFault.NOT_JSON


@ALL_FEEDS
@pytest.mark.parametrize(
    "document", [None, 1, "coins", {"error": "busy"}, {"coins": 1, "prices": 1}, {"coins": []}]
)
def test_json_of_another_shape_is_refused(name: str, server: ScriptedServer, document: object) -> None:
    """R2.1: a feed that changed its shape is unavailable, not a snapshot without prices."""
    answer_with(name, server, json_answer(document))
    assert failure_of(opened(name, server)).reason is FeedFault.WRONG_SHAPE


@ALL_FEEDS
def test_the_key_is_never_told(name: str, server: ScriptedServer) -> None:
    """R9.2: no message about a failing feed shows its key."""
    answer_with(name, server, Scripted(status=401))
    assert "k3y" not in str(failure_of(opened(name, server)))


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("contract", "authorization", "Bearer k3y"),
        ("whattomine", "authorization", "Token k3y"),
        ("calculate", "authorization", "Token k3y"),
        ("minerstat", "x-api-key", "k3y"),
    ],
)
def test_each_service_gets_the_key_its_own_way(
    name: str, header: str, value: str, server: ScriptedServer
) -> None:
    """R2.1: the key is a header, so that it is in no log of addresses; without a key there is none."""
    failure_of(opened(name, server))
    assert server.received[0].headers[header] == value
    assert "k3y" not in server.received[0].path
    failure_of(
        open_feed(**FEEDS[name], base_url=server.url, api_key=None, timeout_sec=5, min_interval_sec=60)
    )
    assert header not in server.received[1].headers


def test_a_key_keeps_no_line_break_of_its_file(server: ScriptedServer) -> None:
    """R11.7: a secret stored with a line break works; one that no header can hold is refused unseen."""
    feed = open_feed("minerstat", base_url=server.url, api_key="k3y\n", timeout_sec=5, min_interval_sec=60)
    failure_of(feed)
    assert server.received[0].headers["x-api-key"] == "k3y"
    with pytest.raises(InvalidDocument) as refusal:
        open_feed("minerstat", base_url=server.url, api_key="k3y\nX: 1", timeout_sec=5, min_interval_sec=60)
    assert refusal.value.field == "api_key"
    assert "k3y" not in str(refusal.value)


@pytest.mark.parametrize(("kind", "field"), [("nicehash", "kind"), ("", "kind"), ("contract", "base_url")])
def test_a_feed_that_cannot_be_opened_names_the_field(kind: str, field: str) -> None:
    """R11.7: an unknown kind, or our own service without an address, is refused by the setting's name."""
    with pytest.raises(InvalidDocument) as refusal:
        open_feed(kind, base_url=None, api_key=None, timeout_sec=5, min_interval_sec=60)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("kind", "algorithms"), [("whattomine", ()), ("whattomine", ("sha256",)), ("minerstat", ())]
)
def test_public_feeds_need_no_address(kind: str, algorithms: tuple[str, ...]) -> None:
    """R2.1: the public feeds are opened at their own addresses unless told otherwise."""
    feed = open_feed(
        kind, base_url=None, api_key=None, timeout_sec=5, min_interval_sec=60, algorithms=algorithms
    )
    assert feed.source == kind
