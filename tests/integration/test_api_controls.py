"""What lets a policy act names the version that was read; what holds it back never waits for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.api_deployment import NORTH, ApiDeployment, deployed
from tests.integration.api_scene import Api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

ANN = Api(tenant=NORTH)
POLICY = "/policies/1"
WHY = {"reason": "a test"}
MODE = {"execution_mode": "shadow", **WHY}


@pytest.fixture
def api(database: DatabaseAddress) -> Iterator[ApiDeployment]:
    """The sample fleet."""
    with deployed(database) as made:
        yield made


@pytest.mark.parametrize(
    ("method", "path", "body"), [("POST", f"{POLICY}/enable", WHY), ("PUT", f"{POLICY}/mode", MODE)]
)
def test_what_lets_a_policy_act_names_the_version_that_was_read(
    api: ApiDeployment, method: str, path: str, body: dict[str, str]
) -> None:
    """R9.1: 428 without a version, 412 with an old one, and then nothing is changed; the answer has the next one."""
    read = ANN.get(POLICY)
    before = api.checksum()
    assert ANN.call(method, path, body=body).code == "precondition_required"
    old = ANN.call(method, path, body=body, headers={"if-match": '"0"'})
    assert (old.status, old.code) == (412, "version_conflict")
    assert old.body["params"] == {"version": 0, "current": read.body["version"]}
    assert api.checksum() == before
    done = ANN.call(method, path, body=body, headers={"if-match": read.headers["etag"]})
    assert done.status == 200
    assert done.headers["etag"] == ANN.get(POLICY).headers["etag"] != read.headers["etag"]
    assert done.headers["etag"] == f'"{done.body["version"]}"'
    assert ANN.call(method, path, body=body, headers={"if-match": read.headers["etag"]}).status == 412


def test_what_holds_a_policy_back_needs_no_version(api: ApiDeployment) -> None:
    """R6.1, R9.1: freezing and disabling are done at once, whoever changed what in between."""
    assert ANN.post(f"{POLICY}/freeze", WHY).body["opened"] is True
    done = ANN.post(f"{POLICY}/disable", WHY)
    assert (done.status, done.headers["etag"]) == (200, ANN.get(POLICY).headers["etag"])
    assert api.value("select enabled from smart_schedule_policy_groups where id = 1") is False
