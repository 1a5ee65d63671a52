"""Whether this deployment can do its work now: asked by load balancers and people, without signing in."""

from __future__ import annotations

from typing import Literal

from aws_lambda_powertools.event_handler import Response

from blsflow.bootstrap import application
from blsflow.flow.health import health
from blsflow.web.problems import Problem

from .routing import answer, operation
from .shapes import Answer


class Health(Answer):
    """The database answers, and its schema is the one that this code needs."""

    status: Literal["ok"]
    schema_version: str


@operation("GET", "/health", scope=None, tag="deployment", problems=["unavailable"])
def read_health() -> Response[Health]:
    """Tell whether the API can serve: 503 if the database does not answer, or has not been migrated to this code."""
    found, needed = health(application().store), application().newest_migration()
    if found.schema_version is None or not found.can_serve(needed):
        raise Problem(
            "unavailable",
            "the database does not answer, or is being brought up to date",
            headers={"retry-after": "5"},
            database=found.database,
            schema_version=found.schema_version,
            needed=needed,
        )
    return answer(Health(status="ok", schema_version=found.schema_version))
