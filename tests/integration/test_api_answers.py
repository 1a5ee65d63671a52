"""What the API's answers are made of: JSON alone, and never more than can be handed over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from blsflow.web.problems import Problem
from functions.api import writing
from functions.api.routing import app
from tests.api_operations import operations, owned_ids
from tests.integration.api_deployment import NORTH, SCHEDULE, ApiDeployment, deployed
from tests.integration.api_scene import Api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

ANN = Api(tenant=NORTH)
BOUND = 8_000


@pytest.fixture
def api(database: DatabaseAddress) -> Iterator[ApiDeployment]:
    """The sample fleet."""
    with deployed(database) as made:
        yield made


def test_a_figure_that_is_no_number_is_unknown(api: ApiDeployment) -> None:
    """R9.1, R2.1: NaN and infinity, which JSON has no words for, are answered as null."""
    api.look(
        "update smart_schedule_machine_project_benchmarks set hashrate_hs = 'NaN', power_w = 'Infinity' where machine_id = "
        "(select min(machine_id) from smart_schedule_machine_project_benchmarks)"
    )
    answered = ANN.get("/benchmarks", limit=500)
    assert answered.status == 200
    unknown = [item for item in answered.body["items"] if item["hashrate_hs"] is None]
    assert unknown
    assert all(item["power_w"] is None for item in unknown)
    assert any(item["power_w"] for item in answered.body["items"])


def test_chinese_is_readable_as_it_is_sent() -> None:
    """R9.4: texts in both languages stand in an answer as people read them."""
    assert writing.as_json({"zh": "策略已冻结"}) == '{"zh":"策略已冻结"}'


def test_the_fleet_of_a_tenant_is_listed(api: ApiDeployment) -> None:
    """R1.4, R8.9: clusters, projects and machines that are the tenant's, each once and by its filters."""
    clusters = ANN.get("/clusters").body["items"]
    assert sum(each["machines"] for each in clusters) == api.value(
        f"select count(*) from machines where tenant_id = '{ANN.tenant}'"
    )
    assert len(ANN.get("/projects").body["items"]) == api.value(
        f"select count(*) from projects where tenant_id = '{ANN.tenant}'"
    )
    found = ANN.get("/machines", cluster_id=clusters[0]["id"], limit=500).body["items"]
    assert len(found) == clusters[0]["machines"]
    assert {each["cluster_id"] for each in found} == {clusters[0]["id"]}


def test_an_answer_without_a_form_in_json_is_a_fault_of_ours() -> None:
    """R9.2: what slips through as not a number becomes no text that only some programs can read."""
    with pytest.raises(ValueError, match="JSON"):
        writing.as_json({"value": float("nan")})
    assert app._serializer is writing.as_json


def test_lists_of_policies_count_scopes_instead_of_repeating_them(api: ApiDeployment) -> None:
    """R9.1: a list tells how long each scope is; the scope itself is in the policy's own document."""
    (listed, *_) = ANN.get("/policies").body["items"]
    whole = ANN.get(f"/policies/{listed['policy_id']}").body
    assert "scope" not in listed["document"]
    assert listed["scope_count"] == whole["scope_count"] == len(whole["document"]["scope"]) > 0
    assert {**whole["document"], "scope": None} == {**listed["document"], "scope": None}
    assert api.value("select count(*) from smart_schedule_policy_scopes") > 0


def test_an_answer_that_is_too_large_says_what_to_ask_for(
    api: ApiDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9.2: what the gateway could not hand over is refused with its size and how to get less; less is then answered."""
    assert 5_000_000 < writing.MOST_BYTES < 6 * 1024 * 1024
    monkeypatch.setattr(writing, "MOST_BYTES", BOUND)
    answered = ANN.get("/benchmarks", limit=500)
    assert (answered.status, answered.code) == (422, "answer_too_large")
    assert answered.body["params"]["size"] > answered.body["params"]["limit"] == BOUND
    assert "limit" in answered.body["detail"]
    assert ANN.get("/benchmarks", limit=10).status == 200
    assert api.value("select count(*) from smart_schedule_machine_project_benchmarks") > 10


def test_an_answer_is_measured_as_lambda_hands_it_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """R9.2: a body is a text within the function's answer, where each quote takes two bytes."""
    body = json.dumps(["a"] * 100)
    monkeypatch.setattr(writing, "MOST_BYTES", len(json.dumps(body)))
    writing.require_bounded({"body": body})
    monkeypatch.setattr(writing, "MOST_BYTES", len(json.dumps(body)) - 1)
    with pytest.raises(Problem):
        writing.require_bounded({"body": body})


def test_whatever_can_be_read_is_answered_as_documented(api: ApiDeployment) -> None:
    """R9.1: every list, and every noun that the tenant has, is read; an answer of another form would be a fault of ours."""
    schedule_id = ANN.post("/schedules", SCHEDULE, idempotency_key="k").body["id"]
    assert ANN.post(f"/schedules/{schedule_id}/run", {"requestId": "r"}).status == 202
    statuses = {}
    for operation in operations():
        if operation.method == "GET":
            path = operation.sample_path(owned_ids(operation, NORTH, api.value))
            statuses[operation.name] = ANN.call("GET", path, query=operation.sample_query()).status
    # of these the sample fleet has none, or it is of another schedule
    missing = {"read_command", "list_command_machines", "read_job", "list_job_machines", "read_occurrence", "read_tick",
               "list_decisions", "explain_decision"}  # fmt: skip
    assert {name for name, status in statuses.items() if status == 404} == missing
    assert set(statuses.values()) == {200, 404}
