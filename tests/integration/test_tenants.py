"""The second wall: what a tenant's transaction sees and may change, whatever its statements say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.store import PostgresStore
from blsflow.ports import StoreError
from tests.integration.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.connection import Session
