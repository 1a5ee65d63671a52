from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from blsflow_cli.main import run

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "backtest_fujian_day.json"


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Ended]


@pytest.fixture
def blsflow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command as a person would, with a document on standard input."""

    def run_it(*arguments: object, document: Any = None) -> Ended:
        monkeypatch.setattr(sys, "argv", ["blsflow", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(document).encode())))
        with pytest.raises(SystemExit) as end:
            run()
        return Ended(int(end.value.code or 0), *capsys.readouterr())

    return run_it


def sample(**changes: Any) -> dict[str, Any]:
    """A fresh copy of the example."""
    found: dict[str, Any] = json.loads(SAMPLE.read_text())
    return found | changes


def test_a_document_is_tried_without_a_database(blsflow: Command) -> None:
    """R4.6, R11.5: a day in Fujian; the inefficient machines rest in the sharp hours, and BCH's afternoon is taken."""
    ended = blsflow("backtest", "--json", SAMPLE)
    assert ended.returncode == 0
    found = json.loads(ended.stdout)
    assert found["moves"]["switch"] >= 1
    assert found["moves"]["stop"] == found["moves"]["start"]
    assert found["gain_cny"] > 0
    assert found["gain_cny"] == pytest.approx(found["policy_cny"] - found["as_is_cny"])
    assert found["known_hours"] + sum(found["unknown_hours"].values()) == pytest.approx(72)
    # BTC's price of 03:00 is fresh until 04:00; the next came at 05:00
    assert found["unknown_hours"] == {"price_stale": pytest.approx(3 * 0.75)}
    assert len(found["series"]) == found["instants"] == 96
    prices = [span["price_cny_per_kwh"] for span in found["tariff_spans"][0]["spans"]]
    assert (prices[0], max(prices), len(prices)) == (0.348612, 0.883289, 11)


def test_people_read_the_three_paths_and_what_is_not_known(blsflow: Command) -> None:
    """R4.6, R11.5: net and gain of each path, moves by action, what changes cost, unknown hours by reason."""
    said = blsflow("backtest", SAMPLE).stdout
    for words in ("as it was", "always on", "switch", "is deducted", "price_stale: 2.2 machine hours"):
        assert words in said
    nothing = blsflow("backtest", "-", document=sample(usdt_to_cny_rate=None))
    assert nothing.returncode == 1
    assert "there is no gain to speak of" in nothing.stdout


def test_the_published_shape_is_what_is_read(blsflow: Command) -> None:
    """R4.6, R4.4: the example holds against `blsflow schema backtest`, and what does not is refused by its path."""
    shape = json.loads(blsflow("schema", "backtest").stdout)
    jsonschema.validate(sample(), shape)
    for changes, words in (
        ({"step_sec": 0}, "step_sec"),
        ({"until": sample()["since"]}, "until"),
        ({"now": sample()["since"]}, "now"),
        ({"policy": sample()["policy"] | {"candidates": [9]}}, "policy.candidates[0]"),
    ):
        refused = blsflow("backtest", "-", document=sample(**changes))
        assert refused.returncode == 2
        assert words in refused.stderr


@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG\r\n"), (".svg", b"<?xml")])
def test_a_chart_is_written_by_the_names_kind(
    blsflow: Command, tmp_path: Path, suffix: str, begins: bytes
) -> None:
    """R4.6: a picture of the three paths, as png or svg; the figures are printed as well."""
    chart = tmp_path / f"day{suffix}"
    assert blsflow("backtest", SAMPLE, "--chart", chart).returncode == 0
    picture = chart.read_bytes()
    assert picture.startswith(begins)
    assert len(picture) > 10_000


def test_no_line_is_drawn_where_nothing_is_known(blsflow: Command, tmp_path: Path) -> None:
    """R4.6: a line at 0 would say that nothing was earned; what is not known is grey."""
    chart = tmp_path / "day.svg"
    policy_line, grey = "stroke: #0072b2", "fill: #cccccc"
    blsflow("backtest", SAMPLE, "--chart", chart)
    drawn = chart.read_text()
    assert (policy_line in drawn, grey in drawn) == (True, True)
    assert blsflow("backtest", "-", "--chart", chart, document=sample(usdt_to_cny_rate=None)).returncode == 1
    drawn = chart.read_text()
    assert (policy_line in drawn, grey in drawn) == (False, True)


def test_a_chart_of_another_kind_is_refused_before_any_work(blsflow: Command, tmp_path: Path) -> None:
    """R4.6: neither a wrong name nor a place that is not there is taken silently."""
    refused = blsflow("backtest", SAMPLE, "--chart", tmp_path / "day.pdf")
    assert refused.returncode == 2
    assert ".png or .svg" in refused.stderr
    nowhere = blsflow("backtest", SAMPLE, "--chart", tmp_path / "missing" / "day.png")
    assert nowhere.returncode == 2
    assert "day.png" in nowhere.stderr


def test_too_much_says_what_to_reduce(blsflow: Command) -> None:
    """R4.6: the bound is on machines times steps."""
    refused = blsflow("backtest", SAMPLE, "--limit", "100")
    assert refused.returncode == 2
    assert "take steps 3 times as long" in refused.stderr


def test_a_would_be_freeze_is_a_finding(blsflow: Command) -> None:
    """R4.6, R6.1: three failed ticks in a row freeze; the answer says when and why, and ends with exit code 1."""
    silent = sample()
    for project in silent["projects"]:
        project["price"]["history"] = project["price"]["history"][:3]
    ended = blsflow("backtest", "-", "--json", document=silent)
    assert ended.returncode == 1
    found = json.loads(ended.stdout)
    assert found["freezes"][0] == {"at": "2025-07-31T19:45:00+00:00", "cause": "profit_unusable"}
    assert found["freeze_count"] > 1


def test_a_document_takes_no_period_of_the_command_line(blsflow: Command) -> None:
    """R4.6: its own period counts; one that would be ignored is refused."""
    refused = blsflow("backtest", SAMPLE, "--step", "60")
    assert refused.returncode == 2
    assert "leave the options out" in refused.stderr
    assert blsflow("backtest", "7").returncode == 2  # a policy needs a period
