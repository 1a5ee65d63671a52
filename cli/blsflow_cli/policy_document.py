"""A policy document in a file, with the tenant whose policy it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from blsflow.documents.policies import NewPolicyDocument
from blsflow_cli.documents import RefusedDocument, read

if TYPE_CHECKING:
    from pathlib import Path


class PolicyFileDocument(NewPolicyDocument):
    """A policy group of a tenant; every limit may be left out."""

    tenant: str = Field(min_length=1)


def read_policy_file(path: Path) -> PolicyFileDocument:
    """Read the policy in a file; `RefusedDocument` names what is wrong with its shape."""
    try:
        document: PolicyFileDocument = read(path, PolicyFileDocument)
    except RefusedDocument as error:
        if any(problem.startswith("document: is no field") for problem in error.problems):
            hint = (
                "this is all that `blsflow policy show` prints: take its field document alone (jq .document)"
            )
            raise RefusedDocument([hint]) from error
        raise
    return document
