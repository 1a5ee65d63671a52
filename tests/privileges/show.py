"""One permission: its work fails without it and for that reason, and is done with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tests.privileges.needs import NEEDS, SECRET
from tests.privileges.report import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.privileges.permissions import Permission
    from tests.privileges.stage import Observed, Roles, Stage

_MOST_TOLD: Final = 1500


def show(
    stage: Stage, roles: Roles, permission: Permission, passing: Sequence[Permission]
) -> tuple[Row, list[str]]:
    """Take a permission away, see its work fail, give it back, see it done; return the row, and what is wrong.

    What is ``passing`` stays away all the time. A secret is asked for by a new container, since an older one has kept it, or
    the connection that it was for.
    """
    need = NEEDS[permission]
    problems = []
    roles.take(permission.role, [*passing, permission])
    if permission.action == SECRET:
        stage.cold(permission.role.removesuffix("Role").lower())
    observed = need.work(stage)
    refusal = refused(permission, observed, need.says)
    if observed.done:
        problems.append(f"{permission} is needed by nothing that was tried: {observed.told[-_MOST_TOLD:]}")
    elif refusal is None:
        problems.append(f"{permission}: failed, but not for lack of it: {observed.told[-_MOST_TOLD:]}")
    roles.take(permission.role, passing)
    again = need.work(stage)
    if not again.done:
        problems.append(f"{permission}: fails although it is given back: {again.told[-_MOST_TOLD:]}")
    return Row(permission, refusal if not problems else None, need.what), problems


def refused(permission: Permission, observed: Observed, says: str | None) -> str | None:
    """Return the words that name the refusal; None if nothing does."""
    if says is not None:
        return says if says in observed.told else None
    action = re.escape(permission.action).replace(r"\*", r"\w*")
    found = re.search(rf"is not authorized to perform: {action}\b", observed.told)
    return found[0] if found else None
