"""One summary line per invocation, and the custom metrics; the names of both are for searching and never change."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit, single_metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@cache
def logger() -> Logger:
    """Return the process's logger; service name and level come from Powertools' own variables."""
    return Logger()


@contextmanager
def summarized(event_name: str, context: Any) -> Iterator[dict[str, object]]:  # noqa: ANN401 - the runtime's own object
    """Log one line when the block ends, with the fields that it filled in; also, with its error, when it raises."""
    fields: dict[str, object] = {"request_id": getattr(context, "aws_request_id", None)}
    try:
        yield fields
    except Exception as error:
        fields |= {
            "error": type(error).__name__,
            "cause": str(error),
            "trace": traceback.format_exc(limit=-6),
        }
        logger().error(event_name, extra=fields)
        raise
    level = "warning" if fields.get("failures") else "info"
    getattr(logger(), level)(event_name, extra=fields, stacklevel=4)


def gauge(name: str, value: float, *, unit: MetricUnit = MetricUnit.Seconds) -> None:
    """Emit one value of a metric of this service."""
    metrics = Metrics()
    metrics.add_metric(name=name, unit=unit, value=value)
    metrics.flush_metrics()


def count(name: str, value: float, *, dimensions: Mapping[str, str] | None = None) -> None:
    """Emit a count, with further dimensions (such as action and reason) if given."""
    if not dimensions:
        gauge(name, value, unit=MetricUnit.Count)
        return
    provider = Metrics()
    with single_metric(name=name, unit=MetricUnit.Count, value=value, namespace=provider.namespace) as metric:
        metric.add_dimension(name="service", value=provider.service or "unknown")
        for key, each in dimensions.items():
            metric.add_dimension(name=key, value=each)
