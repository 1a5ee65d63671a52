"""Schedules and their runs over the API: versions, keys, cursors, running now, cancelling."""

from __future__ import annotations

import base64
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.api_deployment import NORTH, PROMPT, SCHEDULE, STRANGER, ApiDeployment, deployed
from tests.integration.api_scene import Answered, Api
from tests.integration.control_scenes import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

ANN = Api(tenant=NORTH)
POLICY_TICK = 1
"""A schedule of the same tenant, of another kind."""


@pytest.fixture
def api(database: DatabaseAddress) -> Iterator[ApiDeployment]:
    """The sample fleet, whose policies have schedules and whose tenants have no conversation yet."""
    with deployed(database) as made:
        yield made


def _created(key: str = "k", **changes: Any) -> Answered:
    answered = ANN.post("/schedules", {**SCHEDULE, **changes}, idempotency_key=key)
    assert answered.status == 201, answered.body
    return answered


def _conversations(api: ApiDeployment) -> int:
    return int(api.value("select count(*) from smart_schedule_schedules where kind = 'conversation'"))


def test_what_was_created_is_read_where_it_says(api: ApiDeployment) -> None:
    """R8.1, R9.1: a schedule is its creator's, and is found under its location with the same version."""
    created = _created()
    found = ANN.get(created.headers["location"].removeprefix("/api/v1/smart-schedule"))
    assert (found.status, found.body, found.headers["etag"]) == (200, created.body, created.headers["etag"])
    assert (found.body["created_by"], found.body["work"]["prompt"]) == ("ann", PROMPT)
    assert api.value(f"select tenant_id from smart_schedule_schedules where id = {found.body['id']}") == NORTH


@pytest.mark.usefixtures("api")
def test_a_change_needs_the_version_that_was_read() -> None:
    """R9.1: of two who read the same version, the second is told so, and whoever names none changes nothing."""
    created = _created()
    path, version = f"/schedules/{created.body['id']}", created.headers["etag"]
    assert ANN.put(path, {**SCHEDULE, "name": "first"}, if_match=version).body["name"] == "first"
    second = ANN.put(path, {**SCHEDULE, "name": "second"}, if_match=version)
    assert (second.status, second.code) == (412, "version_conflict")
    for never_read in (
        '"999"',
        "1",
        "*",
        'W/"1"',
        '"1", "2"',
        '"-1"',
        '"\u0661"',
        '""',
        '"' + "9" * 300 + '"',
        '"',
    ):
        assert ANN.put(path, SCHEDULE, if_match=never_read).code == "version_conflict", never_read
    assert (ANN.put(path, SCHEDULE).status, ANN.put(path, SCHEDULE).code) == (428, "precondition_required")
    found = ANN.get(path)
    assert (found.body["name"], found.body["version"]) == ("first", 2)
    assert ANN.put(path, {**SCHEDULE, "name": "third"}, if_match=found.headers["etag"]).status == 200


def test_pausing_and_archiving_again_change_nothing(api: ApiDeployment) -> None:
    """R8.6: the same verb twice comes to the same; what is archived can still be read, and is changed no more."""
    path = f"/schedules/{_created().body['id']}"
    for verb, field in (("pause", "paused"), ("archive", "archived")):
        first, second = ANN.post(f"{path}/{verb}"), ANN.post(f"{path}/{verb}")
        assert (first.status, first.body[field]) == (200, True)
        assert second.status in {200, 404}
    assert ANN.get(path).body["archived"] is True
    before = api.checksum()
    assert ANN.put(path, SCHEDULE, if_match=ANN.get(path).headers["etag"]).status == 404
    assert ANN.post(f"{path}/run", {"requestId": "r"}).status == 404
    assert api.checksum() == before


def test_the_same_key_creates_once_and_is_answered_alike(api: ApiDeployment) -> None:
    """R8.8: repeated, with its fields in whatever order, it is the same answer; with another body it is refused."""
    first = _created()
    turned = dict(reversed(list(SCHEDULE.items())))
    assert ANN.post("/schedules", turned, idempotency_key="k") == first
    other = ANN.post("/schedules", {**SCHEDULE, "name": "other"}, idempotency_key="k")
    assert (other.status, other.code, other.body["params"]) == (409, "request_conflict", {"request_id": "k"})
    assert _conversations(api) == 1
    assert _created("l").body["id"] != first.body["id"]
    assert Api(tenant=STRANGER).post("/schedules", SCHEDULE, idempotency_key="k").status == 201


def test_a_failed_creation_frees_its_key(api: ApiDeployment) -> None:
    """R8.8: what was refused holds no key, and can be sent again once it is right."""
    bad = {**SCHEDULE, "rule": {**SCHEDULE["rule"], "time_zone": "Mars/Base"}}
    refused = ANN.post("/schedules", bad, idempotency_key="k")
    assert (refused.status, refused.fields) == (422, ["rule.time_zone"])
    assert _conversations(api) == 0
    _created("k")


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("key", ["", " ", "a" * 201, "a b", "k\x7f", "\u00e9"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    """R8.8: a key is 1 to 200 visible ASCII characters, and has to be there."""
    refused = ANN.post("/schedules", SCHEDULE, idempotency_key=key)
    assert (refused.status, refused.fields) == (422, ["header.idempotency-key"])
    assert ANN.post("/schedules", SCHEDULE).fields == ["header.idempotency-key"]


def test_two_at_once_create_once(api: ApiDeployment) -> None:
    """R8.8: the second waits for the first, and gets its answer."""
    with closing(connect(api.address)) as other:
        other.run("begin")
        other.run(
            "insert into smart_schedule_requests (tenant_id, key, fingerprint, made_by, made_at)"
            f" values ('{NORTH}', 'k', 'f', 'bob', now())"
        )
        answers: list[Answered] = []
        second = threading.Thread(
            target=lambda: answers.append(ANN.post("/schedules", SCHEDULE, idempotency_key="k"))
        )
        second.start()
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        while second.is_alive() and not api.value(waiting):
            time.sleep(0.02)
        assert second.is_alive()
        other.run("commit")
        second.join()
    assert [answer.code for answer in answers] == ["request_conflict"]
    assert _conversations(api) == 0


def test_pages_neither_repeat_nor_lose(api: ApiDeployment) -> None:
    """R8.12: following the cursors of pages of any size shows every row once, also while rows are added."""
    ids = [_created(f"k{number}").body["id"] for number in range(5)]
    for limit in (1, 2, 500):
        seen, cursor = [], None
        while True:
            page = ANN.get("/schedules", limit=limit, **({} if cursor is None else {"cursor": cursor}))
            seen += [item["id"] for item in page.body["items"]]
            cursor = page.body["next_cursor"]
            if cursor is None:
                break
        assert len(seen) == len(set(seen))
        assert set(ids) <= set(seen)
    assert api.value("select count(*) from smart_schedule_schedules") > len(seen)


@pytest.mark.usefixtures("api")
def test_a_policys_tick_is_its_policys_to_change() -> None:
    """R8.1, R9.2: whatever asks for what only a conversation's schedule has done to it is told whose tick it is: 409."""
    path = f"/schedules/{POLICY_TICK}"
    before = ANN.get(path)
    refusals = [
        ANN.put(path, SCHEDULE, if_match=before.headers["etag"]),
        *(ANN.post(f"{path}/{verb}") for verb in ("pause", "resume", "archive")),
        ANN.post(f"{path}/run", {"requestId": "r"}),
    ]
    for refused in refusals:
        assert (refused.status, refused.code) == (409, "conflict")
        assert refused.body["detail"].endswith(": change, pause, run or archive the policy")
        assert refused.body["params"] == {"schedule_id": POLICY_TICK, "policy_id": before.body["policy_id"]}
    assert ANN.get(path).body == before.body


def _edited(cursor: str) -> list[str]:
    plain = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    others = [plain + "0" * 20, "-1", plain + " ", "1 or 1=1", "\u0661", "", "null", "1e3", "[]"]
    return [base64.urlsafe_b64encode(each.encode()).decode().rstrip("=") or "=" for each in others] + [
        cursor + "=",
        cursor[:-1] + "!",
        cursor * 40,
        cursor + "\x00",
    ]


@pytest.mark.usefixtures("api")
def test_a_cursor_that_is_none_of_ours_is_refused() -> None:
    """R8.12, R9.2: garbage, an edited cursor and one of another list name the parameter."""
    for number in range(3):
        _created(f"k{number}")
        path = f"/schedules/{ANN.get('/schedules', limit=500).body['items'][-1]['id']}"
        assert ANN.post(f"{path}/run", {"requestId": "r"}).status == 202
    of_schedules = ANN.get("/schedules", limit=1).body["next_cursor"]
    of_occurrences = ANN.get("/occurrences", limit=1).body["next_cursor"]
    for path, own, foreign in (
        ("/schedules", of_schedules, of_occurrences),
        ("/occurrences", of_occurrences, of_schedules),
    ):
        assert ANN.get(path, cursor=own).status == 200
        for bad in [*_edited(own), foreign]:
            refused = ANN.get(path, cursor=bad)
            assert refused.status == 422, (path, bad)
            assert refused.fields == ["query.cursor"], (path, bad)


def test_a_strangers_cursor_shows_nothing_of_its_maker(api: ApiDeployment) -> None:
    """R9.1: a cursor is a place in a list, and says nothing about whose."""
    _created()
    cursor = ANN.get("/schedules", limit=1).body["next_cursor"]
    assert Api(tenant=STRANGER).get("/schedules", cursor=cursor).body == {"items": [], "next_cursor": None}
    assert _conversations(api) == 1


# ------------------------------------------------------------------------------------------- running now


def test_running_now_is_once_per_request(api: ApiDeployment) -> None:
    """R8.8: the same id is the same occurrence whatever happened since, and the prompt is sent once."""
    path = f"/schedules/{_created().body['id']}"
    first = ANN.post(f"{path}/run", {"requestId": "r1"})
    assert (first.status, first.body["state"], first.body["is_new"]) == (202, "running", True)
    again = ANN.post(f"{path}/run", {"requestId": "r1"})
    assert (again.status, again.body) == (202, {**first.body, "is_new": False})
    assert again.headers["location"] == first.headers["location"]
    found = ANN.get(first.headers["location"].removeprefix("/api/v1/smart-schedule"))
    assert (found.body["request_id"], found.body["origin"]) == ("r1", "manual")
    assert [run["starts"] for run in api.execution._show_ledger().document["runs"]] == [1]


def test_the_same_id_for_another_prompt_is_refused(api: ApiDeployment) -> None:
    """R8.8: an id that was used for what the schedule said before is a conflict, and runs nothing."""
    created = _created()
    path = f"/schedules/{created.body['id']}"
    ANN.post(f"{path}/run", {"requestId": "r1"})
    api.look("update smart_schedule_occurrences set request_fingerprint = 'of another body'")
    refused = ANN.post(f"{path}/run", {"requestId": "r1"})
    assert (refused.status, refused.code, refused.body["params"]) == (
        409,
        "request_conflict",
        {"request_id": "r1"},
    )
    assert api.value("select count(*) from smart_schedule_occurrences") == 1


def test_a_pause_holds_no_manual_run_back(api: ApiDeployment) -> None:
    """R8.8: who runs it now means now."""
    path = f"/schedules/{_created().body['id']}"
    ANN.post(f"{path}/pause")
    assert ANN.post(f"{path}/run", {"requestId": "r"}).body["state"] == "running"
    assert api.value("select count(*) from smart_schedule_occurrences") == 1


@pytest.mark.parametrize("place", ["target", "conversation_id"])
def test_a_target_that_there_is_none_of_is_told_with_its_occurrence(api: ApiDeployment, place: str) -> None:
    """R8.9: 409 `execution_target_unavailable` names the occurrence, which exists and says so too, also when asked again."""
    path = f"/schedules/{_created(work={**SCHEDULE['work'], place: 'nobody'}).body['id']}"
    for _ in range(2):
        refused = ANN.post(f"{path}/run", {"requestId": "r"})
        assert (refused.status, refused.code) == (409, "execution_target_unavailable")
        found = ANN.get(f"{path}/occurrences/{refused.body['params']['occurrence_id']}")
        assert (found.body["state"], found.body["reason"]) == ("skipped", "execution_target_unavailable")
    assert api.value("select count(*) from smart_schedule_occurrences") == 1


def test_an_occurrence_is_cancelled_by_its_own_schedule_only(api: ApiDeployment) -> None:
    """R8.8: under another schedule of the same tenant it is not there, and runs on."""
    mine, other = (f"/schedules/{_created(key).body['id']}" for key in ("a", "b"))
    run = ANN.post(f"{mine}/run", {"requestId": "r"}).body["occurrence_id"]
    for path in (other, f"/schedules/{POLICY_TICK}", "/schedules/999"):
        for method, verb in (("POST", "/cancel"), ("GET", "")):
            assert ANN.call(method, f"{path}/occurrences/{run}{verb}").code == "not_found"
    assert ANN.get(f"{mine}/occurrences/{run}").body["state"] == "running"
    assert ANN.post(f"{mine}/occurrences/{run}/cancel").body == {"state": "cancelling", "asked": True}
    assert ANN.post(f"{mine}/occurrences/{run}/cancel").body["asked"] is False
    assert api.value("select state from smart_schedule_occurrences") == "cancelling"


def test_a_policy_runs_now_once_per_request(api: ApiDeployment) -> None:
    """R8.8: a tick outside of the plan is one occurrence per request id."""
    first, again = (ANN.post("/policies/1/run", {"requestId": "r"}) for _ in range(2))
    assert (first.status, first.body["is_new"], again.body) == (202, True, {**first.body, "is_new": False})
    assert api.value("select count(*) from smart_schedule_occurrences where origin = 'manual'") == 1


BOB = Api(tenant=NORTH, subject="bob")


def _told(api: ApiDeployment) -> list[list[Any]]:
    return api.look(
        "select code, params ->> 'by', params ->> 'runs_as', params ->> 'changed' from smart_schedule_log_events"
        " where code like 'schedule_%' order by id"
    )


def test_whoever_changes_what_is_sent_sends_it_in_their_own_name(api: ApiDeployment) -> None:
    """R8.1, R8.8: a prompt goes out in the name of who wrote it, never of somebody who has not seen it."""
    path = f"/schedules/{_created().body['id']}"
    renamed = BOB.put(path, {**SCHEDULE, "name": "again"}, if_match=ANN.get(path).headers["etag"])
    assert (renamed.body["created_by"], renamed.body["runs_as"]) == ("ann", "ann")
    work = {**SCHEDULE["work"], "prompt": "something else"}
    changed = BOB.put(path, {**SCHEDULE, "work": work}, if_match=renamed.headers["etag"])
    assert (changed.body["created_by"], changed.body["runs_as"]) == ("ann", "bob")
    ANN.post(f"{path}/run", {"requestId": "r"})
    sent_as = "select caller_subject from smart_schedule_attempts where kind = 'conversation'"
    assert api.look(sent_as) == [["bob"]]
    assert _told(api) == [
        ["schedule_created", "ann", "ann", None],
        ["schedule_changed", "bob", "ann", "name"],
        ["schedule_changed", "bob", "bob", "name, work"],
    ]


def test_every_verb_of_a_schedule_is_on_the_record_once(api: ApiDeployment) -> None:
    """R9.1: who created, paused, resumed and archived it; what changes nothing tells nothing."""
    path = f"/schedules/{_created().body['id']}"
    for verb in ("pause", "pause", "resume", "resume", "archive"):
        assert BOB.post(f"{path}/{verb}").status == 200
    assert BOB.post(f"{path}/archive").status == 404
    assert [row[:2] for row in _told(api)] == [
        ["schedule_created", "ann"],
        ["schedule_paused", "bob"],
        ["schedule_resumed", "bob"],
        ["schedule_archived", "bob"],
    ]
