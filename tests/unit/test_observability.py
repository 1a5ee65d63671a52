"""One summary line per invocation, and metrics in the embedded format."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from blsflow import observability

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE = "observed"
CONTEXT = SimpleNamespace(aws_request_id="c6af9ac6-7b61-11e6-9a41-93e8deadbeef")


@pytest.fixture(autouse=True)
def fresh_logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A logger that writes to this test's own standard output."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", SERVICE)
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "BLSFlowScheduler")

    def forget() -> None:
        observability.logger.cache_clear()
        logging.Logger.manager.loggerDict.pop(SERVICE, None)

    forget()
    yield
    forget()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What was printed, a JSON document a line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_invocation_leaves_one_line_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """R11.2: the line carries the event's name, the service, the request's id, and what the handler filled in."""
    with observability.summarized("tick", CONTEXT) as line:
        line |= {"recorded": 3, "failures": {}}
    (written,) = lines(capsys)
    assert (written["message"], written["service"], written["level"]) == ("tick", SERVICE, "INFO")
    assert (written["request_id"], written["recorded"]) == (CONTEXT.aws_request_id, 3)


@pytest.mark.parametrize("failures", [1, {"sweep": "gone"}])
def test_an_invocation_with_failures_warns(capsys: pytest.CaptureFixture[str], failures: object) -> None:
    """R11.2: a run that went on after a failure is told apart by the level of its line."""
    with observability.summarized("decide", CONTEXT) as line:
        line["failures"] = failures
    (written,) = lines(capsys)
    assert (written["level"], written["failures"]) == ("WARNING", failures)


def test_an_invocation_that_raises_still_leaves_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """R11.2: the error is named in the line, with what was filled in before, and goes on to the runtime."""

    def invoke() -> None:
        with observability.summarized("migrate", CONTEXT) as line:
            line["applied"] = ["0001_platform"]
            raise LookupError("no such thing")

    with pytest.raises(LookupError):
        invoke()
    (written,) = lines(capsys)
    assert (written["level"], written["error"], written["cause"]) == ("ERROR", "LookupError", "no such thing")
    assert written["applied"] == ["0001_platform"]
    assert "test_observability.py" in written["trace"]


def test_a_runtime_without_a_context_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """R11.2: a direct call, as tests and local runs make it, has no request id, and a line all the same."""
    with observability.summarized("notify", None):
        pass
    (written,) = lines(capsys)
    assert written["message"] == "notify"
    assert "request_id" not in written


def test_a_gauge_is_one_metric_of_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    """R11.2: the alarms of the template find the metric by namespace, name and service."""
    observability.gauge("TickLagSeconds", 1.5)
    (written,) = lines(capsys)
    (described,) = written["_aws"]["CloudWatchMetrics"]
    assert described["Namespace"] == "BLSFlowScheduler"
    assert described["Dimensions"] == [["service"]]
    assert [(each["Name"], each["Unit"]) for each in described["Metrics"]] == [("TickLagSeconds", "Seconds")]
    assert (written["service"], written["TickLagSeconds"]) == (SERVICE, [1.5])


def test_a_count_may_have_dimensions_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """R11.2: decisions are counted by action and reason, and one count's dimensions do not leak into the next."""
    observability.count("Decisions", 40, dimensions={"action": "keep", "reason": "best_already"})
    observability.count("PolicyFrozen", 1)
    decisions, frozen = lines(capsys)
    assert decisions["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service", "action", "reason"]]
    assert (decisions["action"], decisions["reason"], decisions["Decisions"]) == (
        "keep",
        "best_already",
        [40],
    )
    assert frozen["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]
    assert "Decisions" not in frozen
