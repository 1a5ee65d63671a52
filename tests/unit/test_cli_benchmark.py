"""`blsflow benchmark judge`: a document in, a judgement out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from blsflow_cli.benchmark_judge import BenchmarkDocument
from blsflow_cli.documents import json_schema

SAMPLE = Path(__file__).parents[2] / "examples" / "benchmark_cold_start.json"
BLSFLOW = str(Path(sys.executable).with_name("blsflow"))


def sample() -> dict[str, Any]:
    """A fresh copy of the example."""
    found: dict[str, Any] = json.loads(SAMPLE.read_text())
    return found


def judge(document: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command on a document."""
    return subprocess.run(
        [BLSFLOW, "benchmark", "judge", "-", *options],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_example_is_a_benchmark() -> None:
    """R3.4, R7.2: the medians in base units, and what became of each reading."""
    found = judge(sample(), "--json")
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert answer["counts"] is True
    assert (answer["hashrate_hs"], answer["power_w"]) == (pytest.approx(32.05e6), 130.5)
    assert (answer["readings_used"], answer["warm_up_discarded"], answer["zero_pairs_dropped"]) == (4, 2, 1)
    assert "32.05" in judge(sample()).stdout


def test_a_refused_sample_is_a_finding() -> None:
    """R3.4, R7.2: exit code 1 and the fault with its figures; a drift is told as well."""
    found = judge(sample() | {"warm_up_sec": 100, "stored_hashrate": 20}, "--json")
    assert found.returncode == 1
    assert json.loads(found.stdout)["fault"] == "too_few_readings"
    assert "too_few_readings: 1 readings" in judge(sample() | {"warm_up_sec": 100}).stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hashrate_unit": "Sol/s"}, "hashrate_unit"),
        ({"hashrate_unit": "MHz"}, "hashrate_unit"),
        ({"power_unit": "VA"}, "power"),
        ({"readings": []}, "readings"),
        ({"min_readings": 0}, "min_readings"),
        ({"readings": [{"at_sec": 1, "hashrate": "31"}]}, "readings[0].hashrate"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_field(change: dict[str, Any], message: str) -> None:
    """R2.5, R3.4: units are explicit, a mismatch names its field, and nothing is scaled silently."""
    found = judge(sample() | change)
    assert found.returncode == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_the_published_schema_describes_the_example() -> None:
    """R3.4: the published shape accepts the example and refuses an unknown field."""
    validator = jsonschema.Draft202012Validator(json_schema(BenchmarkDocument))
    validator.validate(sample())
    assert not validator.is_valid(sample() | {"colour": "red"})
