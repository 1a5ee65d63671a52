"""Commands that list the fleet: what a policy's scope and candidates can name, and whose it is."""

from __future__ import annotations

from typing import Annotated

import typer

from blsflow.flow import fleet
from blsflow_cli.deployment import deployment, require_tenant
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import Cursor, Limit, moment, plain_rows
from blsflow_cli.output import print_json, show_page
from blsflow_cli.schedules import TenantOption  # noqa: TC001 - typer reads the annotations

fleet_app = typer.Typer(
    help="Clusters, projects and machines, as other services keep them.", no_args_is_help=True
)


def fleet_clusters(
    *, tenant: TenantOption = None, cursor: Cursor = None, limit: Limit = 50, as_json: JsonOption = False
) -> None:
    """List clusters with their tenants and how many machines each has.

    For example:

        blsflow fleet clusters --tenant north-mining
    """
    with deployment() as application:
        page = fleet.clusters(application.store, tenant_id=tenant, cursor=cursor, limit=limit)
        require_tenant(application, tenant, page.rows)
    if as_json:
        print_json({"clusters": plain_rows(page.rows), "cursor": page.cursor})
        return
    cells = ((row["id"], row["tenant_id"], row["time_zone"], row["machines"]) for row in page.rows)
    show_page("Clusters", ("cluster", "tenant", "zone", "machines (n)"), cells, page.cursor)


def fleet_projects(
    *, tenant: TenantOption = None, cursor: Cursor = None, limit: Limit = 50, as_json: JsonOption = False
) -> None:
    """List projects: what can be mined, and the key under which the feed knows its price.

    For example:

        blsflow fleet projects --tenant north-mining
    """
    with deployment() as application:
        page = fleet.projects(application.store, tenant_id=tenant, cursor=cursor, limit=limit)
        require_tenant(application, tenant, page.rows)
    if as_json:
        print_json({"projects": plain_rows(page.rows), "cursor": page.cursor})
        return
    columns = ("project", "tenant", "name", "price key", "algorithm")
    cells = (
        (row["id"], row["tenant_id"], row["name"], row["price_key"], row["algorithm"]) for row in page.rows
    )
    show_page("Projects", columns, cells, page.cursor)


def fleet_machines(  # noqa: PLR0913 - the filters of a page
    *,
    tenant: TenantOption = None,
    cluster: Annotated[int | None, typer.Option(min=1, help="Only this cluster's.")] = None,
    model: Annotated[str | None, typer.Option(help="Only of this model.")] = None,
    status: Annotated[str | None, typer.Option(help="Only those that report mining, stopped or off.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
) -> None:
    """List machines with what each reported last.

    For example:

        blsflow fleet machines --tenant north-mining --cluster 2 --status off
    """
    with deployment() as application:
        page = fleet.machines(
            application.store,
            tenant_id=tenant,
            cluster_id=cluster,
            model=model,
            status=status,
            cursor=cursor,
            limit=limit,
        )
        require_tenant(application, tenant, page.rows)
    if as_json:
        print_json({"machines": plain_rows(page.rows), "cursor": page.cursor})
        return
    columns = ("machine", "tenant", "cluster", "model", "status", "project", "reported", "held")
    cells = (
        (row["id"], row["tenant_id"], row["cluster_id"], row["model"], row["status"], row["project_id"],
         moment(row["reported_at"]), row["operator_hold"])
        for row in page.rows
    )  # fmt: skip
    show_page("Machines", columns, cells, page.cursor)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(fleet_app, name="fleet")
    for name, command in (
        ("clusters", fleet_clusters),
        ("projects", fleet_projects),
        ("machines", fleet_machines),
    ):
        fleet_app.command(name)(command)
