"""The classes of a policy's machines, as a tick reads them: found along an index, whatever the number of machines."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.statements import statements
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.domain.gates import Gates
from tests.integration.plans import WHATEVER_THE_VALUES, explained, nodes, rows_read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

CLUSTERS, MODELS, MACHINES = 5, 3, 6_000
_GATES = Gates(execute_enabled=False, executor_configured=False)
_SCENE = f"""
insert into clusters select g, 'acme', 'c' || g, 'UTC' from generate_series(1, {CLUSTERS}) g;
insert into clusters values (100, 'other', 'c', 'UTC');
insert into machine_models select 'M' || g, 'SHA-256', 1e14, 3000 from generate_series(1, {MODELS}) g;
insert into machines
    select g, 'acme', 1 + g % {CLUSTERS}, 'M' || (1 + g % {MODELS}), 'm' || g, false from generate_series(1, {MACHINES}) g
    where g % {CLUSTERS} <> 4 or g % {MODELS} = 0;
insert into machines values (100000, 'other', 100, 'M1', 'theirs', false), (100001, 'acme', 5, 'unheard of', 'new', false);
insert into projects select g, 'acme', 'p' || g, 'C', 'C' || g, 'SHA-256' from generate_series(1, 4) g;
insert into project_run_configurations
    select p * 10 + m, p, 'M' || m, p <> m from generate_series(1, 4) p, generate_series(1, {MODELS}) m;
insert into smart_schedule_resource_eligibilities values
    ('acme', 1, 'cluster', '1', true), ('acme', 2, 'cluster', '1', true), ('acme', 1, 'cluster', '2', true),
    ('acme', 3, 'model', 'M2', true), ('acme', 1, 'model', 'M2', false), ('acme', 4, 'machine', '6', true),
    ('other', 4, 'model', 'M2', true);
insert into smart_schedule_policy_groups (tenant_id, name, mode, enabled, created_by)
    values ('acme', 'guard', 'profit_guard', true, 'test');
"""


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """Thousands of machines in 15 combinations of cluster and model, two of which nobody has."""
    with closing(Session(module_database)) as opened:
        opened.run(_SCENE)
        opened.run("vacuum analyze")
        yield opened


@pytest.mark.parametrize(
    ("scope", "machines"),
    [
        ([("tenant", "*")], "true"),
        ([("cluster", "2"), ("cluster", "100")], "cluster_id = 2"),
        ([("model", "M3"), ("cluster", "4")], "model = 'M3' or cluster_id = 4"),
        ([("machine", "7"), ("machine", "100000"), ("machine", "5999")], "id in (7, 5999)"),
        ([("machine", "7"), ("model", "M1")], "id = 7 or model = 'M1'"),
        ([("model", "none"), ("machine", "999999")], "false"),
        ([], "false"),
    ],
    ids=str,
)
def test_classes_are_those_of_the_machines_in_scope(
    session: Session, scope: list[tuple[str, str]], machines: str
) -> None:
    """R1.2: each combination of cluster and model that a machine in scope has, once, and no other tenant's."""
    expected = session.run(
        f"select distinct cluster_id, model from machines where tenant_id = 'acme' and ({machines}) order by 1, 2"
    )
    session.run("delete from smart_schedule_policy_scopes")
    for kind, resource in scope:
        session.run(f"insert into smart_schedule_policy_scopes values (1, '{kind}', '{resource}')")
    with PostgresStore(lambda: session).transaction() as tx:
        trial = tx.begin_trial(1, _GATES, tenant_id="acme")
        assert trial is not None
        inputs = tx.tick_inputs(trial.tick)
    assert [[each.cluster_id, each.model] for each in inputs.classes] == expected
    assert [each.index for each in inputs.classes] == list(range(len(expected)))
    assert [each.cluster_id for each in inputs.clusters] == sorted({cluster for cluster, _ in expected})
    for each in inputs.classes:
        number = int(each.model[1:]) if each.model.startswith("M") else None
        assert each.run_configs == (
            {p: p * 10 + number for p in range(1, 5) if p != number} if number else {}
        )
        assert each.nameplate_power_w == (3000 if number else None)
        assert each.allowed == {1: {1, 2}, 2: {1}}.get(each.cluster_id, set()) | (
            {3} if number == 2 else set()
        )
        assert each.denied == ({1} if number == 2 else set())


def test_classes_are_found_without_reading_every_machine(session: Session) -> None:
    """R3.10: what a tick's machines share is read in the same time whether there are a thousand or a hundred thousand."""
    session.run("delete from smart_schedule_policy_scopes")
    session.run("insert into smart_schedule_policy_scopes values (1, 'tenant', '*')")
    plan = explained(
        session,
        statements()["tick_inputs"],
        {"policy_id": 1, "tenant_id": "acme", "occurrence_id": 0, "tariffs_from": datetime.now(UTC)},
        settings=WHATEVER_THE_VALUES,
    )
    scans = [node for node in nodes(plan) if node.get("Relation Name") == "machines"]
    assert rows_read(scans) <= CLUSTERS * MODELS + 2
