"""A policy document in a file, with the tenant whose policy it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from blsflow.documents.policies import PolicyDocument
from blsflow_cli.documents import read

if TYPE_CHECKING:
    from pathlib import Path


class PolicyFileDocument(PolicyDocument):
    """A policy group of a tenant; every limit may be left out."""

    tenant: str = Field(min_length=1)


def read_policy_file(path: Path) -> PolicyFileDocument:
    """Read the policy in a file; `RefusedDocument` names what is wrong with its shape."""
    document: PolicyFileDocument = read(path, PolicyFileDocument)
    return document
