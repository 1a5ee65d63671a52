"""The deployed template, shared by the end-to-end tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.stack.stack import LocalStack

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def stack_parameters() -> dict[str, str]:
    """Template parameters of the deployed stack; the simulators' addresses go here."""
    return {}


@pytest.fixture(scope="session")
def local_stack(stack_parameters: dict[str, str]) -> Iterator[LocalStack]:
    """The real template, deployed once for the whole run, with execution roles enforced."""
    with LocalStack(stack_parameters, progress=print) as stack:
        yield stack
