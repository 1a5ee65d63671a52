"""The backtest document: a decide document over a period, each project's price with its history (R4.6).

A price counts from when it was taken; machines are as the period finds them, so that a report is fresh or not by
``since``.
"""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, Field

from blsflow.documents import located
from blsflow.domain.backtest import Scenario
from blsflow.domain.inputs import ProjectInput
from blsflow.domain.prices import PriceReading
from blsflow_cli.decide_document import WorldDocument
from blsflow_cli.decide_inputs import check_references, classes_of, clusters_of, machines_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class BacktestDocument(WorldDocument):
    """A policy, and the past that it is tried on. Prices are a project's ``history`` and its newest, oldest first."""

    since: AwareDatetime
    until: AwareDatetime
    step_sec: int = Field(default=300, ge=1, description="how often the policy decides")


def scenario_of(document: BacktestDocument, *, limit: int) -> Scenario:
    """What the document means; `InvalidDocument` names what cannot be meant."""
    with located("policy"):
        policy = document.policy.policy()
    check_references(document)
    classes = classes_of(document)
    since = document.since.astimezone(UTC)
    return Scenario(
        policy=policy,
        since=since,
        until=document.until.astimezone(UTC),
        step=timedelta(seconds=document.step_sec),
        rate=document.usdt_to_cny_rate,
        projects=tuple(
            ProjectInput(project_id=project.id, name=project.name, algorithm=project.algorithm, raw=None)
            for project in document.projects
        ),
        clusters=clusters_of(document),
        classes=tuple(classes.values()),
        machines=machines_of(document, policy, classes),
        read_at=since,
        limit=limit,
    )


def readings_of(document: BacktestDocument) -> list[PriceReading]:
    """All prices of the document, in the order in which they were taken."""
    return sorted(_readings(document), key=lambda reading: (reading.received_at, reading.project_id))


def _readings(document: BacktestDocument) -> Iterator[PriceReading]:
    for project in document.projects:
        price = project.price
        if price is None:
            continue
        for past in price.history:
            yield PriceReading(past.taken_at, project.id, price.raw(past.revenue, past.taken_at))
        yield PriceReading(
            price.taken_at, project.id, price.raw(price.revenue, price.taken_at, flags=price.flags)
        )
