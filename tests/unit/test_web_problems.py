import json

import pytest

from blsflow.web.problems import CONTENT_TYPE, PROBLEMS, Problem, as_response


@pytest.mark.parametrize("code", PROBLEMS)
def test_a_problem_is_a_document_of_its_code(code: str) -> None:
    """R9.2: type, title, status, detail, code, params and the request's id; an error's status and words that end nowhere."""
    response = as_response(Problem(code, "why", headers={"retry-after": "2"}, figure=3), "id-1")
    document = json.loads(response["body"])
    assert document == {
        "type": f"urn:blsflow-scheduler:problem:{code}",
        "title": PROBLEMS[code][1],
        "status": response["statusCode"],
        "detail": "why",
        "code": code,
        "params": {"figure": 3},
        "request_id": "id-1",
    }
    assert 400 <= response["statusCode"] < 600
    assert response["headers"] == {
        "content-type": CONTENT_TYPE,
        "cache-control": "no-store",
        "retry-after": "2",
    }


def test_a_code_that_there_is_none_of_has_no_status() -> None:
    """R9.2: only codes of the table are ever answered with."""
    with pytest.raises(KeyError):
        _ = Problem("made_up", "why").status


def test_every_title_is_said_once() -> None:
    """R9.2: two codes that say the same would be one."""
    titles = [title for _, title in PROBLEMS.values()]
    assert len(titles) == len(set(titles))
    assert not [title for title in titles if title.endswith(".")]
