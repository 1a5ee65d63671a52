"""The deployed API against the document that it serves, by a tool that knows nothing else of it.

The last of all end-to-end tests, as a tenant of its own: what it creates comes due.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from local.stack.processes import REPOSITORY
from tests.api_operations import operations

if TYPE_CHECKING:
    from tests.e2e.conftest import Watched

SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
TENANT = "fuzzed"
_POLICY = f"""
insert into smart_schedule_policy_groups (tenant_id, name, mode, created_by)
    values ('{TENANT}', 'of nothing', 'profit_guard', 'test');
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule, paused)
    select tenant_id, 'test', 'policy_tick', id, '{{"kind": "daily", "time_of_day": "00:00"}}', true
    from smart_schedule_policy_groups where tenant_id = '{TENANT}'
"""
"""A policy without machines: what it is told to do is recorded, and moves nothing."""


@pytest.mark.timeout(420)
def test_nothing_contradicts_the_document(
    product: Watched, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """R9.1, R9.2: no status, shape, header or order of calls that the document does not have, and no 5xx."""
    product.rows(_POLICY)
    at = product.product
    asked = {"grant_type": "client_credentials", "tenant_id": TENANT, "expires_in": "7200"}
    token = httpx.post(f"{at.issuer_url}/token", data=asked).json()["access_token"]
    nightly = request.config.getoption("--hypothesis-profile") == "nightly"
    found = subprocess.run(
        [
            SCHEMATHESIS, "--config-file", str(REPOSITORY / "schemathesis.toml"), "--no-color",
            "run", f"{at.api_url}/openapi.json", "--url", at.api_url, "--header", f"Authorization: Bearer {token}",
            "--include-path-regex", ".*",  # else the document's own operation is left out
            "--exclude-path-regex", "^/stream",  # each answer of a stream may be held for 25 s
            *(["--max-examples", "200"] if nightly else []),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr[-2000:]
    assert f"Tested: {len(operations())}" in found.stdout
