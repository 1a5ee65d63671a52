"""`blsflow logs`: the log of a deployment, and following it without losing an event."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from blsflow.domain.log import MOST_ROWS, LogPlace
from blsflow.domain.texts import render
from blsflow.flow.control import UnknownPolicy
from blsflow.ports.errors import StoreUnavailable
from blsflow_cli.deployment import deployment
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import Lang, Language, OptionalPolicy, moment, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from blsflow.bootstrap import Application

    Written: TypeAlias = Callable[[Mapping[str, Any]], str]
_POLL_SEC: Final = 1.0
_LONGEST_WAIT_SEC: Final = 30.0


def logs(
    policy: OptionalPolicy = None,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until interrupted.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many events to begin with.")] = 50,
    lang: Language = Lang.EN,
    as_json: JsonOption = False,
) -> None:
    """Show the newest log events, a line each; with --follow, go on with every event that comes.

    With --json each event has its code and parameters, and its text in both languages.

    Following loses none, in whatever order transactions commit: an event is shown once all older transactions ended.

    For example:

        blsflow logs 3 --lines 200 --lang zh

        blsflow logs --follow --json | jq -c 'select(.level == "error")'
    """
    with deployment() as application:
        with application.store.transaction() as tx:
            position = tx.log_position() if follow else None
            if policy is not None and not tx.knows_policy(policy, tenant_id=None):
                raise UnknownPolicy(policy)
            rows = tx.log_tail(policy_id=policy, tenant_id=None, limit=lines, before_xid=position)
        written = _json_line if as_json else _in(lang)
        _print(rows, written)
        if position is not None:
            try:
                _follow(application, policy, LogPlace(xid=int(position), event_id=0), written)
            except KeyboardInterrupt:
                return


def _follow(application: Application, policy: int | None, after: LogPlace, written: Written) -> None:
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
        _print(rows, written)
        if rows:
            after = LogPlace(xid=int(rows[-1]["xid"]), event_id=rows[-1]["id"])
        if len(rows) < MOST_ROWS:
            time.sleep(_POLL_SEC)


def _print(rows: Iterable[Mapping[str, Any]], written: Written) -> None:
    for row in rows:
        sys.stdout.write(written(row) + "\n")
    sys.stdout.flush()


def _json_line(row: Mapping[str, Any]) -> str:
    told = plain({name: value for name, value in row.items() if name != "xid"})
    texts = render(row["code"], row["params"])
    return json.dumps({**told, "texts": {"en": texts.en, "zh": texts.zh}}, ensure_ascii=False)


def _in(lang: Lang) -> Written:
    """Return how an event is written in a language; its code stands there too, to be looked for."""

    def line(row: Mapping[str, Any]) -> str:
        where = f"policy {row['policy_id']}" if row["policy_id"] is not None else row["tenant_id"]
        ids = [f"{name}={row[name]}" for name in ("tick_id", "attempt_id") if row[name] is not None]
        told = render(row["code"], row["params"]).of(lang.value)
        return " ".join([f"{moment(row['at'])} {row['level']:<7} {where}: {row['code']} - {told}", *ids])

    return line


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(logs)
