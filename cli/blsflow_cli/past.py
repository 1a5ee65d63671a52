"""Commands that tell what was: decisions on a machine, freezes of a policy, and what people were told."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from blsflow.domain.catalogue import word
from blsflow.domain.notifications import NotificationQuery
from blsflow.domain.pages import LARGEST_ID, id_of_cursor
from blsflow.flow import policies, ticks
from blsflow.flow.notifications import list_notifications
from blsflow_cli.deployment import deployment
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import (
    Cursor,
    Lang,
    Language,
    Limit,
    PolicyArgument,
    figures,
    moment,
    plain,
    plain_rows,
)
from blsflow_cli.output import print_json, show_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blsflow.ports.store import Store
    from blsflow.ports.ticks import DecisionRow

_MOST_WALKS: Final = 50
"""Through a tenant's ticks, for one page: a million of them, some three seconds."""


def decisions(
    machine: Annotated[int, typer.Argument(help="The machine's id.", min=1)],
    *,
    cursor: Cursor = None,
    limit: Limit = 20,
    lang: Language = Lang.EN,
    as_json: JsonOption = False,
) -> None:
    """List what was decided for a machine, newest first, by whichever policies; `blsflow explain` tells one in full.

    A million of the tenant's ticks are looked through for a page; where that ends it early, it says so, and --cursor goes on.

    For example:

        blsflow decisions 1042
    """
    with deployment() as application:
        rows, following = _history(application.store, machine, cursor, limit)
    if following is not None and len(rows) < limit:
        typer.echo("looked through a million ticks: older ones follow with --cursor", err=True)
    if as_json:
        print_json({"decisions": plain_rows(map(asdict, rows)), "cursor": following})
        return
    columns = ("at", "tick", "action", "from", "to", "reason", "why")
    cells = (
        (moment(row.ticked_at), row.tick_id, row.action, row.from_project, row.to_project, row.reason,
         word(row.reason).of(lang.value) + ("" if row.overridden_by is None else f" (policy {row.overridden_by})"))
        for row in rows
    )  # fmt: skip
    show_page(f"Decided for machine {machine}", columns, cells, following)


def _history(
    store: Store, machine_id: int, cursor: str | None, limit: int
) -> tuple[Sequence[DecisionRow], str | None]:
    """Read on behind pages that end early, until one is filled, there are no more, or it takes too long."""
    rows: list[DecisionRow] = []
    for _ in range(_MOST_WALKS):
        found, cursor = ticks.machine_history(store, machine_id, cursor=cursor, limit=limit - len(rows))
        rows += found
        if cursor is None or len(rows) == limit:
            break
    return rows, cursor


def freezes(
    policy: PolicyArgument,
    *,
    cursor: Cursor = None,
    limit: Limit = 20,
    lang: Language = Lang.EN,
    as_json: JsonOption = False,
) -> None:
    """List a policy's freezes, newest first: for what, by whom, and who lifted them and why.

    For example:

        blsflow freezes 3
    """
    with deployment() as application:
        rows, following = policies.freezes(application.store, policy, cursor=cursor, limit=limit)
    if as_json:
        print_json({"freezes": plain_rows(map(asdict, rows)), "cursor": following})
        return
    columns = ("frozen", "by", "for", "with", "lifted", "by", "why")
    cells = (
        (moment(row.frozen_at), row.frozen_by, word(row.cause).of(lang.value), figures(row.detail),
         moment(row.lifted_at), row.lifted_by, row.lift_reason)
        for row in rows
    )  # fmt: skip
    show_page(f"Freezes of policy {policy}", columns, cells, following)


def notifications(  # noqa: PLR0913 - the filters of a page
    tenant: Annotated[str, typer.Argument(help="Whose people were told.")],
    *,
    policy: Annotated[int | None, typer.Option(min=1, help="Only of this policy.")] = None,
    unread: Annotated[
        bool | None, typer.Option("--unread/--read", help="Only those that are, or are not.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 20,
    lang: Language = Lang.EN,
    as_json: JsonOption = False,
) -> None:
    """List what a tenant's people were told, newest first. Looking marks nothing as read.

    For example:

        blsflow notifications north-mining --unread
    """
    query = NotificationQuery(
        tenant_id=tenant,
        unread=unread,
        policy_id=policy,
        before_id=id_of_cursor("notifications", cursor, first=LARGEST_ID),
        limit=limit,
    )
    with deployment() as application:
        rows, following = list_notifications(application.store, query)
    if as_json:
        document = [plain(asdict(row) | {"texts": asdict(row.texts)}) for row in rows]
        print_json({"notifications": document, "cursor": following})
        return
    columns = ("at", "id", "policy", "code", "read by", "says")
    cells = (
        (
            moment(row.created_at),
            row.notification_id,
            row.policy_id,
            row.code,
            row.read_by,
            row.texts.of(lang.value),
        )
        for row in rows
    )
    show_page(f"Notifications of {tenant}", columns, cells, following)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (decisions, freezes, notifications):
        app.command()(command)
