from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from blsflow.domain.policy import Policy
from blsflow.domain.policy_document import LIMITS
from blsflow_cli.decide_document import PolicyDocument
from blsflow_cli.main import run
from blsflow_cli.policy_document import PolicyFileDocument

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "decide_worked_case.json"
TARIFF = ROOT / "examples" / "tariff_fujian_2025_08.json"
RULE = ROOT / "examples" / "rule_nightly.json"
POLICY = ROOT / "examples" / "policy_profit_guard.json"


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Ended]


@pytest.fixture
def blsflow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command as a person would, with a document on standard input."""

    def run_it(*arguments: str, document: Any = None) -> Ended:
        text = document if isinstance(document, str) else json.dumps(document)
        monkeypatch.setattr(sys, "argv", ["blsflow", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        with pytest.raises(SystemExit) as end:
            run()
        return Ended(int(end.value.code or 0), *capsys.readouterr())

    return run_it


def sample(path: Path = SAMPLE) -> dict[str, Any]:
    """A fresh copy of a document of the examples."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_decide_prints_figures_for_people_and_programs(blsflow: Command) -> None:
    """R3.4, R3.2: one answer per machine with what led to it; JSON alone on standard output with --json."""
    for_people = blsflow("decide", str(SAMPLE))
    assert for_people.returncode == 0
    assert "negative_profit" in for_people.stdout
    assert "-0.88" in for_people.stdout
    for_programs = blsflow("decide", "--json", "-", document=sample())
    assert for_programs.returncode == 0
    answer = json.loads(for_programs.stdout)
    assert answer["counts"] == {"stop/negative_profit": 1}
    machine = answer["machines"][0]
    assert machine["electricity"]["price_cny_per_kwh"] == 0.801031
    figures = machine["projects"][0]["figures"]
    assert figures["revenue_cny_per_day"] - figures["cost_cny_per_day"] == pytest.approx(
        machine["current_net_cny_per_day"]
    )


@pytest.mark.parametrize("rate", [None, 0, -1])
def test_failed_tick_is_a_finding(blsflow: Command, rate: float | None) -> None:
    """R2.1: without an exchange rate everything is held, the tick is a failure, and the exit code says so."""
    found = blsflow("decide", "--json", "-", document=sample() | {"usdt_to_cny_rate": rate})
    assert found.returncode == 1
    answer = json.loads(found.stdout)
    assert answer["failure"] == "no_price_known"
    assert answer["counts"] == {"keep/price_unknown": 1}
    assert answer["machines"][0]["projects"][0]["price"]["reason"] == "exchange_rate_unknown"


def test_price_history_quarantines_a_jump(blsflow: Command) -> None:
    """R2.1: a price a thousand times its history looks like a change of unit and decides nothing."""
    document = sample()
    price = document["projects"][0]["price"]
    price["history"] = [{"revenue": price["revenue"] / 1000, "taken_at": "2025-08-01T10:20:00+08:00"}]
    found = json.loads(blsflow("decide", "--json", "-", document=document).stdout)
    assert found["counts"] == {"keep/price_quarantined": 1}
    price["history"] = [{"revenue": price["revenue"] / 1.5, "taken_at": "2025-08-01T10:20:00+08:00"}]
    found = json.loads(blsflow("decide", "--json", "-", document=document).stdout)
    assert found["counts"] == {"stop/negative_profit": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"policy": {"mode": "profit"}},
            "policy.mode: is not one of 'profit_guard' or 'time_window' (got 'profit')",
        ),
        (
            {"policy": {"mode": "profit_guard", "candidates": [9]}},
            "policy.candidates[0]: is not the id of any",
        ),
        ({"policy": {"mode": "profit_guard", "time_zone": "Mars"}}, "policy.time_zone: not an IANA zone"),
        ({"policy": {"mode": "profit_guard", "min_gain_ratio": -1}}, "policy.min_gain_ratio: must be 0 or"),
        ({"now": "2025-08-01T10:30:00"}, "now: needs a UTC offset"),
        ({"clusters": []}, "machines[0].cluster_id: is not the id of any of the document's clusters (got 1)"),
        ({"colour": "red"}, "colour: is no field of this document (got 'red')"),
        ("{", "the document is not JSON"),
        ({"usdt_to_cny_rate": "7.2"}, "usdt_to_cny_rate: is not a number (got '7.2')"),
    ],
)
def test_bad_document_is_refused_by_field(
    blsflow: Command, change: dict[str, Any] | str, message: str
) -> None:
    """R3.4, R2.5: exit code 2 and a line that names the field, its value and what is wrong, without a traceback."""
    document = change if isinstance(change, str) else sample() | change
    found = blsflow("decide", "-", document=document)
    assert found.returncode == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr
    in_json = blsflow("decide", "--json", "-", document=document)
    assert in_json.returncode == 2
    assert message in json.loads(in_json.stdout)["errors"][0]


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (
            "kSol/s",
            "machines[0].benchmarks[0].hashrate.unit: counts Sol/s where H/s is expected (got 'kSol/s')",
        ),
        ("TH", "machines[0].benchmarks[0].hashrate.unit: is no unit of hashrate"),
    ],
)
def test_units_are_never_guessed(blsflow: Command, unit: str, message: str) -> None:
    """R2.5: a hashrate in the wrong unit is refused, not scaled."""
    document = sample()
    document["machines"][0]["benchmarks"][0]["hashrate"]["unit"] = unit
    found = blsflow("decide", "-", document=document)
    assert found.returncode == 2
    assert message in found.stderr


def test_all_shape_problems_are_told_at_once(blsflow: Command) -> None:
    """R3.4: a document with several mistakes is not refused one mistake at a time."""
    document = sample()
    del document["now"]
    document["machines"][0]["status"] = "resting"
    found = blsflow("decide", "-", document=document)
    assert "now: is missing" in found.stderr
    assert "machines[0].status" in found.stderr


def test_missing_file(blsflow: Command) -> None:
    """R3.4: a file that is not there is bad input, by name."""
    found = blsflow("decide", "no-such.json")
    assert (found.returncode, found.stdout) == (2, "")
    assert "no-such.json: No such file" in found.stderr


def test_tariff_check_of_a_good_tariff(blsflow: Command) -> None:
    """R3.4, R2.2: hours per price over the time in force, no gaps, and the price of instants with and without offset."""
    found = blsflow(
        "tariff", "check", "--json", str(TARIFF), "--year", "2025",
        "--at", "2025-08-01T11:00", "--at", "2025-08-01T00:00Z",
    )  # fmt: skip
    assert found.returncode == 0
    answer = json.loads(found.stdout)
    assert answer["problems"] == []
    assert sum(each["hours"] for each in answer["hours"]) == 31 * 24
    sharp, flat = answer["prices"]
    assert (sharp["period"], sharp["price_cny_per_kwh"]) == ("sharp", 0.883289)
    assert (flat["period"], flat["at"]) == ("flat", "2025-08-01T08:00:00+08:00")


def test_tariff_check_shows_gaps_and_overlaps(blsflow: Command) -> None:
    """R2.2: an hour that no period covers and one that two claim are findings, with their local times."""
    document = sample(TARIFF)
    document["periods"] = [
        {"name": "day", "price_per_kwh": 0.6, "hours": [{"starts": "08:00", "ends": "22:00"}]},
        {"name": "night", "price_per_kwh": 0.3, "hours": [{"starts": "21:00", "ends": "07:00"}]},
    ]
    found = blsflow("tariff", "check", "--json", "-", "--year", "2025", document=document)
    assert found.returncode == 1
    first = json.loads(found.stdout)["problems"][:2]
    assert [(each["problem"], each["names"], each["start"]) for each in first] == [
        ("tariff_gap", [document["name"]], "2025-08-01T07:00:00+08:00"),
        ("tariff_overlap", ["day", "night"], "2025-08-01T21:00:00+08:00"),
    ]
    for_people = blsflow("tariff", "check", "-", "--year", "2025", document=document)
    assert "tariff_overlap day night" in for_people.stdout


def test_tariff_check_shows_both_dst_days(blsflow: Command) -> None:
    """R3.4, R2.2: the day of 23 hours and the day of 25, and an instant that the zone skips is marked."""
    document = {
        "name": "DE",
        "time_zone": "Europe/Berlin",
        "currency": "EUR",
        "cny_rate": 8,
        "periods": [
            {"name": "day", "price_per_kwh": 0.25, "hours": [{"starts": "06:00", "ends": "22:00"}]},
            {"name": "night", "price_per_kwh": -0.01, "hours": [{"starts": "22:00", "ends": "06:00"}]},
        ],
    }
    found = blsflow(
        "tariff", "check", "--json", "-", "--year", "2025", "--at", "2025-03-30T02:30", document=document
    )
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert [(each["day"], each["hours"]) for each in answer["clock_days"]] == [
        ("2025-03-30", 23),
        ("2025-10-26", 25),
    ]
    assert sum(each["hours"] for each in answer["hours"]) == 365 * 24
    skipped = answer["prices"][0]
    assert (skipped["clock"], skipped["at"]) == ("moved", "2025-03-30T03:00:00+02:00")
    assert skipped["price_cny_per_kwh"] == pytest.approx(-0.08)


def test_tariffs_of_a_cluster_over_time(blsflow: Command) -> None:
    """R2.2: a hole between two tariffs is a gap; before the first and after the last there is none."""
    first, second = sample(TARIFF), sample(TARIFF)
    second |= {"name": "later", "valid_from": "2025-09-02T00:00:00+08:00", "valid_to": None}
    found = blsflow("tariff", "check", "--json", "-", "--year", "2025", document=[first, second])
    assert found.returncode == 1
    hole = json.loads(found.stdout)["problems"]
    assert [(each["start"], each["hours"], each["names"]) for each in hole] == [
        ("2025-09-01T00:00:00+08:00", 24, [])
    ]


def test_bad_tariff_is_refused_by_field(blsflow: Command) -> None:
    """R3.4: what a tariff cannot mean is named with its path."""
    document = sample(TARIFF)
    document["periods"][1]["hours"][0]["ends"] = "25:00"
    found = blsflow("tariff", "check", "-", document=document)
    assert found.returncode == 2
    assert "periods[1].hours[0].ends: " in found.stderr
    assert "25:00" in found.stderr
    document["periods"][1] = {"name": "valley", "price_per_kwh": "free"}
    expected = "periods[1].price_per_kwh: is not a number (got 'free')\n"
    assert blsflow("tariff", "check", "-", document=document).stderr == "blsflow: " + expected
    assert blsflow("tariff", "check", "-", document=[document]).stderr == "blsflow: [0]." + expected
    assert "holds no tariff" in blsflow("tariff", "check", "-", document=[]).stderr
    document["periods"][1] = {"name": "valley", "price_per_kwh": 0.3, "hours": []}
    assert (
        "periods[1].hours: a period needs hours" in blsflow("tariff", "check", "-", document=document).stderr
    )
    instant = blsflow("tariff", "check", str(TARIFF), "--at", "noon")
    assert instant.returncode == 2
    assert "--at: is no instant" in instant.stderr


def test_schedule_preview_marks_dst(blsflow: Command) -> None:
    """R3.4, R8.2: a nightly run that DST skips comes right after the gap, once, and says so."""
    arguments = ("schedule", "preview", str(RULE), "--after", "2026-03-28T00:00+01:00", "--count", "3")
    runs = json.loads(blsflow(*arguments, "--json").stdout)["runs"]
    assert [(run["at"], run["planned_for"], run["clock"]) for run in runs] == [
        ("2026-03-28T01:30:00+00:00", "2026-03-28T02:30:00", "exact"),
        ("2026-03-29T01:00:00+00:00", "2026-03-29T02:30:00", "moved"),
        ("2026-03-30T00:30:00+00:00", "2026-03-30T02:30:00", "exact"),
    ]
    assert "DST skips" in blsflow(*arguments).stdout


def test_schedule_preview_of_a_rule_that_has_ended(blsflow: Command) -> None:
    """R8.2: a rule may have no further run; that is no error."""
    rule = {"kind": "once", "at": "2020-01-01T00:00", "time_zone": "UTC"}
    found = blsflow("schedule", "preview", "-", document=rule)
    assert found.returncode == 0
    assert "no further run" in found.stdout


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"kind": "interval", "every_sec": 0, "time_zone": "UTC"}, "every_sec: "),
        ({"kind": "interval", "every_sec": "60", "time_zone": "UTC"}, "every_sec: "),
        ({"kind": "daily", "time_of_day": "25:00", "time_zone": "UTC"}, "time_of_day: "),
        ({"kind": "daily", "time_of_day": "08:00", "time_zone": "Mars"}, "time_zone: "),
        ({"kind": "cron", "expression": "* * *", "time_zone": "UTC"}, "expression: "),
        ({"kind": "hourly", "time_zone": "UTC"}, "blsflow: kind: is not one of 'once', 'interval',"),
        ({"time_zone": "UTC"}, "blsflow: kind: is missing"),
        ({"kind": "daily", "time_zone": "UTC"}, "blsflow: time_of_day: is missing"),
    ],
)
def test_bad_rule_is_refused_by_field(blsflow: Command, rule: dict[str, Any], message: str) -> None:
    """R8.2: a rule that cannot be meant names its field; nothing is guessed."""
    found = blsflow("schedule", "preview", "-", document=rule)
    assert found.returncode == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_preview_starts_at_an_instant(blsflow: Command) -> None:
    """R8.2: a time without an offset is no instant."""
    found = blsflow("schedule", "preview", str(RULE), "--after", "2026-03-28T00:00")
    assert found.returncode == 2
    assert "--after: is no instant" in found.stderr


@pytest.mark.parametrize(
    ("name", "path"), [("decide", SAMPLE), ("tariff", TARIFF), ("rule", RULE), ("policy", POLICY)]
)
def test_published_schema_describes_the_sample(blsflow: Command, name: str, path: Path) -> None:
    """R3.4: the published shape is a valid schema, accepts the sample, and refuses an unknown field."""
    found = blsflow("schema", name)
    assert found.returncode == 0
    schema = json.loads(found.stdout)
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    validator.validate(sample(path))
    assert not validator.is_valid(sample(path) | {"colour": "red"})


def test_a_policys_file_has_every_limit_with_its_default() -> None:
    """R9.1: every limit of a stored policy can be given in its file, and left out it is what the use case takes."""
    shape = PolicyFileDocument.model_fields
    assert {name: shape[name].default for name in LIMITS} == dict(LIMITS)
    assert set(shape) - set(LIMITS) == {
        "tenant", "name", "mode", "execution_mode", "time_zone", "priority", "scope", "candidates", "windows", "schedule",
    }  # fmt: skip


def test_policy_document_has_the_policys_limits() -> None:
    """R3.4: every limit of a policy can be given, and has the default that a stored policy has."""
    policy = PolicyDocument.model_validate({"mode": "profit_guard"}, strict=False).policy()
    stored = Policy(id=1, tenant_id="", name="policy", mode=policy.mode, execution_mode=policy.execution_mode)
    assert policy == stored
    not_for_offline = {
        "id", "tenant_id", "execution_mode", "version", "priority", "decision_validity_sec",
        "max_failed_share", "failed_share_window_sec",
    }  # fmt: skip
    assert set(Policy.__dataclass_fields__) - set(PolicyDocument.model_fields) == not_for_offline


@pytest.mark.parametrize(
    "command", [[], ["decide"], ["tariff", "check"], ["schedule", "preview"], ["schema"]]
)
def test_help_shows_an_example(blsflow: Command, command: list[str]) -> None:
    """R3.4: every command explains itself."""
    found = blsflow(*command, "--help")
    assert found.returncode == 0
    assert not command or "blsflow " + command[0] in found.stdout


def test_installed_command() -> None:
    """R3.4: the command that is installed is this one."""
    found = subprocess.run(
        [str(Path(sys.executable).with_name("blsflow")), "decide", "--json", str(SAMPLE)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(found.stdout)["counts"] == {"stop/negative_profit": 1}


@pytest.mark.parametrize("words", [["--version"], ["--version", "status"]])
def test_the_version_is_told_and_nothing_else_is_done(blsflow: Command, words: list[str]) -> None:
    """R11.5: `blsflow --version` needs no command."""
    ended = blsflow(*words)
    assert (ended.returncode, ended.stdout) == (0, f"blsflow {metadata.version('blsflow-scheduler')}\n")


@pytest.mark.parametrize("as_json", [True, False])
def test_a_figure_beyond_computing_is_refused(blsflow: Command, *, as_json: bool) -> None:
    """R4.4: what came out infinite is no decision to show, in whatever form."""
    arguments = ["decide", *(["--json"] if as_json else []), "-"]
    ended = blsflow(*arguments, document=sample() | {"usdt_to_cny_rate": 1e308})
    assert ended.returncode == 2
    assert "too far out" in ended.stdout + ended.stderr
