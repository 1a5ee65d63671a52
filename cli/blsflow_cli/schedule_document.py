"""The schedule document: a conversation's schedule in one file (R8.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from blsflow.documents import Strict, located
from blsflow.documents.rules import RuleDocument, WorkDocument
from blsflow.domain.errors import InvalidExecutionRequest
from blsflow_cli.documents import RefusedDocument, read
from blsflow_cli.schedule_preview import rule_of

if TYPE_CHECKING:
    from pathlib import Path


class RefusedSchedule(RefusedDocument):
    """A schedule document of the wrong shape; nothing is recorded for it (R8.2)."""

    code = InvalidExecutionRequest.code


class ScheduleDocument(Strict):
    """A schedule of conversations."""

    tenant: str = Field(min_length=1)
    created_by: str = Field(min_length=1, description="the user with whose rights the prompt is run")
    name: str = ""
    rule: RuleDocument
    work: WorkDocument

    def rule_as_given(self) -> dict[str, Any]:
        """The rule as it is stored: what was left out stays out."""
        return self.rule.model_dump(exclude_unset=True)


def read_schedule(path: Path) -> ScheduleDocument:
    """The schedule in a file; `RefusedSchedule` or `InvalidExecutionRequest` name the fields that cannot be meant."""
    try:
        document: ScheduleDocument = read(path, ScheduleDocument)
    except RefusedDocument as error:
        raise RefusedSchedule(error.problems) from error
    with located("rule"):
        rule_of(document.rule)
    return document
