"""Tenants as an operator of the whole deployment names them; a token's tenant is vouched for by its issuer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blsflow.domain.errors import InvalidDocument
    from blsflow.ports.store import Transaction


def require_tenant(tx: Transaction, tenant_id: str, refusal: type[InvalidDocument]) -> None:
    """Raise the refusal, naming the field, for a tenant of whom there is no machine, cluster or lease: a misspelt one."""
    if not tx.knows_tenant(tenant_id):
        raise refusal(
            field="tenant",
            value=tenant_id,
            cause="no machine, cluster or executor lease is of such a tenant: `blsflow fleet clusters` shows their names",
        )
