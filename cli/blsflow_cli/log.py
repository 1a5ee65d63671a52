"""`blsflow logs`: the log of a deployment, and following it without losing an event."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from blsflow.domain.log import MOST_ROWS, LogPlace
from blsflow.ports import StoreUnavailable
from blsflow_cli.deployment import deployment
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import OptionalPolicy, counted, moment, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from blsflow.bootstrap import Application

_POLL_SEC: Final = 1.0
_LONGEST_WAIT_SEC: Final = 30.0


def logs(
    policy: OptionalPolicy = None,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until interrupted.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many events to begin with.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Show the newest log events, a line each; with --follow, go on with every event that comes.

    Following loses none, in whatever order transactions commit: an event is shown once all older transactions ended.

    For example:

        blsflow logs 3 --lines 200

        blsflow logs --follow --json | jq -c 'select(.level == "error")'
    """
    with deployment() as application:
        with application.store.transaction() as tx:
            position = tx.log_position() if follow else None
            rows = tx.log_tail(policy_id=policy, tenant_id=None, limit=lines, before_xid=position)
        _print(rows, as_json=as_json)
        if position is not None:
            try:
                _follow(application, policy, LogPlace(xid=int(position), event_id=0), as_json=as_json)
            except KeyboardInterrupt:
                return


def _follow(application: Application, policy: int | None, after: LogPlace, *, as_json: bool) -> None:
    """Print what comes, until interrupted; a database that is gone is waited for, with the place kept."""
    wait = _POLL_SEC
    while True:
        try:
            with application.store.transaction() as tx:
                rows = tx.follow_log(after=after, policy_id=policy, tenant_id=None, limit=MOST_ROWS)
        except StoreUnavailable as error:
            typer.echo(f"the database does not answer ({error}); trying again in {wait:.0f} s", err=True)
            time.sleep(wait)
            wait = min(_LONGEST_WAIT_SEC, 2 * wait)
            continue
        wait = _POLL_SEC
        _print(rows, as_json=as_json)
        if rows:
            after = LogPlace(xid=int(rows[-1]["xid"]), event_id=rows[-1]["id"])
        if len(rows) < MOST_ROWS:
            time.sleep(_POLL_SEC)


def _print(rows: Iterable[Mapping[str, Any]], *, as_json: bool) -> None:
    for row in rows:
        sys.stdout.write((_json_line(row) if as_json else _line(row)) + "\n")
    sys.stdout.flush()


def _json_line(row: Mapping[str, Any]) -> str:
    return json.dumps(
        plain({name: value for name, value in row.items() if name != "xid"}), ensure_ascii=False
    )


def _line(row: Mapping[str, Any]) -> str:
    where = f"policy {row['policy_id']}" if row["policy_id"] is not None else row["tenant_id"]
    told = [
        f"{name}={_cell(name, value)}" for name, value in row["params"].items() if value not in (None, {}, "")
    ]
    told += [f"{name}={row[name]}" for name in ("tick_id", "attempt_id") if row[name] is not None]
    return f"{moment(row['at'])} {row['level']:<7} {where}: {row['code']} {' '.join(told)}".rstrip()


def _cell(name: str, value: Any) -> str:  # noqa: ANN401 - any JSON value
    if name == "counts" and isinstance(value, dict):
        return f"[{counted(value)}]"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(logs)
