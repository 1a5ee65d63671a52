"""The table of permissions in docs/security.md, between its markers."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from local.stack.processes import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.privileges.permissions import Permission

DOCUMENT: Final = REPOSITORY / "docs" / "security.md"
BEGIN: Final = "<!-- privileges: written by `make privileges` -->"
END: Final = "<!-- /privileges -->"


class Row(NamedTuple):
    """A permission; what its work said ``without`` it, None if the emulator does not ask for it; and the work, or why not."""

    permission: Permission
    without: str | None
    about: str


def publish(rows: Sequence[Row], seconds: float) -> None:
    """Write the table into the document anew."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    DOCUMENT.write_text(
        f"{before}{BEGIN}\n{table(rows, datetime.now(UTC), seconds)}{END}{after}", encoding="utf-8"
    )


def table(rows: Iterable[Row], at: datetime, seconds: float) -> str:
    """Return both tables: what was shown to be needed, and what the emulator does not ask for, with the reasons."""
    asked, passed = [], defaultdict(list)
    for each in rows:
        if each.without is None:
            passed[each.permission.action, each.permission.resource, each.about].append(each.permission.role)
        else:
            asked.append(each)
    lines = [
        f"{at:%Y-%m-%d}, in {seconds:.0f} s: {len(asked)} permissions each taken away and given back.",
        "",
        "| role | may | on | what failed without it | as |",
        "|---|---|---|---|---|",
        *(
            f"| {_short(each.permission.role)} | `{each.permission.action}` | {each.permission.resource}"
            f" | {each.about} | {each.without} |"
            for each in asked
        ),
        "",
        f"The emulator does not ask for {sum(map(len, passed.values()))} more. They were all taken away throughout:",
        "",
        "| may | on | roles | not shown, because |",
        "|---|---|---|---|",
        *(
            f"| `{action}` | {'everything' if resource == '*' else f'`{resource}`'}"
            f" | {', '.join(map(_short, roles))} | {why} |"
            for (action, resource, why), roles in passed.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _short(role: str) -> str:
    return role.removesuffix("Role").lower()
