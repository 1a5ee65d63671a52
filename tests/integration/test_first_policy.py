"""The commands in docs/operations.md by which a first policy is written."""

from __future__ import annotations

import json
import re
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from blsflow_cli.main import run
from local.stack.processes import REPOSITORY
from tests.integration.control_scenes import environment, look, seeded

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress

_BLOCK = re.compile(r"\n## A first policy\n.*?```sh\n(.*?)```", re.DOTALL)
_FAILED = 2


def test_the_commands_in_the_docs_make_a_policy_that_ticks_in_shadow_and_may_then_execute(
    database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """R4.1, R9.1, R11.5: what operators are told to type works as it stands, one after the other."""
    (commands,) = _BLOCK.findall((REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8"))
    monkeypatch.chdir(REPOSITORY)
    for name, value in environment(seeded(database)).items():
        monkeypatch.setenv(name, value)

    def typed(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", list(words))
        with pytest.raises(SystemExit) as end:
            run()
        told = capsys.readouterr()
        assert end.value.code != _FAILED, told.err
        return told.out

    create, *others = map(shlex.split, commands.splitlines())
    policy = str(json.loads(typed(*create, "--json"))["policy_id"])
    for words in others:
        if words[1] == "report":
            typed("blsflow", "run", policy, "--request-id", "first")
            typed("blsflow", "tick")
        typed(*(policy if word == "POLICY" else word for word in words))
    ticks = look(
        database,
        "select distinct execution_mode, machines > 0 from smart_schedule_ticks where policy_id = :id",
        id=int(policy),
    )
    assert ticks == [["shadow", True]]
    groups = look(
        database,
        "select enabled, execution_mode from smart_schedule_policy_groups where id = :id",
        id=int(policy),
    )
    assert groups == [[True, "execute"]]
