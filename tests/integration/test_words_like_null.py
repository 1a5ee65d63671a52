"""A name may be the word null: it stays a word, from whichever side it comes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blsflow.adapters.postgres.connection import Session
from local.simulators.web import Answer, Served
from tests.integration.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from local.simulators.web import Request

_TENANTS = (
    "clusters", "machines", "projects", "smart_schedule_resource_eligibilities", "smart_schedule_executor_leases",
    "smart_schedule_policy_groups", "smart_schedule_schedules",
)  # fmt: skip


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """A session on a migrated database."""
    with closing(Session(module_database)) as opened:
        yield opened


@settings(max_examples=300)
@given(
    st.lists(
        st.none()
        | st.sampled_from(
            ["null", "NULL", "Null", "nUlL", "", " ", '"', "\\", "{", "}", "a,b", "'", ":x", "\u2003"]
        )
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
    )
)
def test_a_list_of_texts_arrives_as_it_went(session: Session, texts: list[str | None]) -> None:
    """R2.4, R11.7: whatever a name is, it is that name in the database, and only what is unknown is null."""
    (row,) = session.query_text(
        "select to_jsonb((:texts)::text[]) as texts, cardinality((:texts)::text[]) as many", texts=texts
    )
    assert (row["texts"], row["many"]) == (texts, len(texts))


@pytest.mark.parametrize("model", ["null", "Null", "NULL"])
@pytest.mark.parametrize("scope", ["tenant", "cluster", "model", "machine"])
def test_no_machine_is_lost_for_the_name_of_its_model(
    database: DatabaseAddress, model: str, scope: str
) -> None:
    """R3.10: all machines of a scope are decided on."""
    with Scene(database, machines=6) as scene:
        scene.session.run(
            f"insert into machine_models select '{model}', 'SHA-256', 1e14, 3000; update machines set model = '{model}';"
            f"insert into project_run_configurations values (21, 1, '{model}', true), (22, 2, '{model}', true)"
        )
        named = {"tenant": "*", "cluster": "1", "model": model, "machine": "3"}[scope]
        scene.session.run(
            "delete from smart_schedule_policy_scopes;"
            f"insert into smart_schedule_policy_scopes values (1, '{scope}', '{named}')"
        )
        scene.prices()
        scene.due()
        scene.tick()
        (report,) = scene.decide()
        assert report.machines == (1 if scope == "machine" else 6)


class _Feed:
    """A price feed of our own contract, with rows for A, B and C, one of which says something else."""

    def __init__(self, scene: Scene, key: str, change: dict[str, Any]) -> None:
        self._scene = scene
        self._key = key
        self._change = change

    def handle(self, _request: Request) -> Answer:
        """Answer with the rows as of now."""
        revenues = {"A": 50 / 1e14, "B": 80 / 1e14, "C": 1e-12}
        rows: list[dict[str, Any]] = [
            {"key": key, "algorithm": "SHA-256", "revenue": revenue, "unit": "H/s", "flags": []}
            | (self._change if key == self._key else {})
            for key, revenue in revenues.items()
        ]
        at = self._scene.now().isoformat()
        return Answer(document={"taken_at": at, "currency": "USDT", "flags": [], "prices": rows})


@pytest.mark.parametrize(
    ("key", "change", "moved"),
    [
        ("C", {}, 6),
        ("C", {"unit": "null"}, 6),
        ("C", {"key": "Null"}, 6),
        ("B", {"flags": ["null"]}, 0),
        ("B", {"algorithm": "null"}, 0),
    ],
)
def test_a_price_that_says_null_is_judged_by_what_it_says(
    database: DatabaseAddress, key: str, change: dict[str, Any], moved: int
) -> None:
    """R2.2: a flag is a flag and an algorithm another one whatever their names; and a row costs no other row."""
    with Scene(database) as scene:
        scene.session.run("delete from smart_schedule_profit_readings")
        with Served(_Feed(scene, key, change)) as served:
            scene.start(BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL=served.url)
            report = scene.app.tick(budget_sec=10)
            scene.decide()
        assert report.failures == {}
        assert sum(count for what, count in scene.decisions().items() if what.startswith("switch")) == moved
        assert scene.value("select count(*) from smart_schedule_profit_readings") == 3


def test_a_tenant_of_that_name_is_frozen_and_told_like_any_other(database: DatabaseAddress) -> None:
    """R6.1, R10.1: the freeze, its log event and its notification are that tenant's."""
    with Scene(database) as scene:
        for table in _TENANTS:
            scene.session.run(f"update {table} set tenant_id = 'null'")
        scene.session.run("update smart_schedule_profit_readings set flags = '{suspect}'")
        scene.tick()
        scene.decide()
        assert scene.rows("select tenant_id from smart_schedule_freezes") == [["null"]]
        assert scene.value("select count(*) from smart_schedule_outbox where tenant_id = 'null'") > 0
