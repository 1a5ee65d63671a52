from __future__ import annotations

from typing import TYPE_CHECKING

import pg8000.core
import pg8000.native
import requests

from blsflow.adapters import http
from local.simulators.web import Answer, Served
from tests.storm.shortcuts import _SERVED, shortcuts

if TYPE_CHECKING:
    from local.simulators.web import Request


class _Service:
    def handle(self, _request: Request) -> Answer:
        return Answer(document={}, status=418)


def _met() -> tuple[object, ...]:
    return vars(http)["HTTPConnection"], pg8000.native.to_statement, pg8000.core.FLUSH_MSG, dict(_SERVED)


def test_no_shortcut_outlasts_its_stage() -> None:
    """R11.2: whoever comes after a storm in this process meets the product as it is, and no service that has gone."""
    before = _met()
    with Served(_Service()) as served:
        with shortcuts(served):
            assert all(now != then for now, then in zip(_met(), before, strict=True))
        assert _met() == before
        assert requests.get(served.url, timeout=5).status_code == 418
