"""`python -m tests.privileges`: deploy once, take away each permission of each role in turn, and see what fails.

What the emulator does not ask for is taken away from everybody first, and the main job has to run all the same. Then each
permission that it does ask for is taken away by itself: its piece of work has to fail for that reason, and to be done again
with it. The table goes into docs/security.md if nothing is wrong.

Exit code 1: a permission that nothing needs, work that fails with all of its permissions, deployed policies that are not the
template's, or a permission that the emulator asks for unexpectedly.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from blsflow.bootstrap import application_from
from local.fleet.conversations import BRIEFING, schedule_every_minute
from local.product import LocalProduct
from tests.privileges.main_job import whole_job
from tests.privileges.needs import NEEDS, UNENFORCED
from tests.privileges.permissions import Permission, granted
from tests.privileges.report import Row, publish
from tests.privileges.show import show
from tests.privileges.stage import Roles, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONDITIONAL: Final = {
    "SecretsKmsKeyArn": "arn:aws:kms:us-east-1:000000000000:key/of-the-secrets",
    "SubnetIds": "subnet-of-nobody",
    "SecurityGroupIds": "sg-of-nobody",
}
"""Parameters that add statements to the policies; the emulator looks none of them up."""
_LANES: Final = (
    ("ReconcileRole", "BenchmarkRole"),
    ("TickRole", "DecideRole", "ApiRole"),
    ("ExecuteRole", "LiveRole", "NotifyRole", "MigrateRole"),
)
"""Roles whose pieces of work do not touch those of the other lanes: these go beside each other."""


def main() -> int:
    """Show all roles, or the named ones (which publishes nothing); return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.privileges", description=__doc__)
    parser.add_argument("roles", nargs="*", help="only these, such as TickRole")
    every = sorted({each.role for each in granted()})
    chosen = parser.parse_args().roles or every
    if unknown := set(chosen) - set(every):
        parser.error(f"the template has no role {', '.join(sorted(unknown))}; there are: {', '.join(every)}")
    began = time.monotonic()
    with LocalProduct(machines=200, ramp_sec=3, parameters=_CONDITIONAL, progress=_say) as product:
        rows, problems = _show(product, chosen)
    seconds = time.monotonic() - began
    if not problems and set(chosen) == set(every):
        publish(rows, seconds)
    for problem in problems:
        _say(f"PROBLEM {problem}")
    _say(f"{len(rows)} permissions in {seconds:.0f} s, {len(problems)} problems")
    return bool(problems)


def _show(product: LocalProduct, chosen: Sequence[str]) -> tuple[list[Row], list[str]]:
    application = application_from(product.environment)
    schedule_every_minute(application.store, BRIEFING)
    application.store.close()
    roles = Roles(product)
    problems = [
        f"deployed is what the template does not say, or the other way round: {each}"
        for each in roles.differences()
    ]
    passing = [each for each in granted() if each.action in UNENFORCED]
    for role in {each.role for each in granted()}:
        roles.take(role, passing)
    with contextlib.closing(product.session()) as session:
        stage = Stage(product, session)
        problems += whole_job(stage, _say)
    rows = [Row(each, None, UNENFORCED[each.action]) for each in passing if each.role in chosen]
    needed = [each for each in NEEDS if each.role in chosen]
    lanes = [[each for each in needed if each.role in lane] for lane in _LANES]
    with ThreadPoolExecutor(len(lanes)) as pool:
        for shown, found in pool.map(partial(_lane, product, roles, passing), lanes):
            rows += shown
            problems += found
    return rows, problems


def _lane(
    product: LocalProduct, roles: Roles, passing: Sequence[Permission], permissions: Sequence[Permission]
) -> tuple[list[Row], list[str]]:
    rows, problems = [], []
    with contextlib.closing(product.session()) as session:
        stage = Stage(product, session)
        for permission in permissions:
            row, problem = show(stage, roles, permission, passing)
            rows.append(row)
            problems += problem
            _say(
                f"{permission.role}: {permission.action} on {permission.resource}: {row.without or 'PROBLEM'}"
            )
    return rows, problems


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - talks to the person who waits for it


if __name__ == "__main__":
    sys.exit(main())
