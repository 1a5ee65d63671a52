"""What the template grants, one permission at a time, and policies without some of them.

A permission is one action on one resource by one role. Conditions count as met: what a parameter may add is granted too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.template import as_list, of_type, properties

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_MANAGED = "RuntimePolicy"


class Permission(NamedTuple):
    """An action that a role may do on a resource; role and resource by their names in the template."""

    role: str
    action: str
    resource: str


class Place(NamedTuple):
    """Where a policy says so: its name, the number of the statement, and of the resource in it."""

    policy: str
    statement: int
    resource: int


def granted() -> dict[Permission, Place]:
    """Return every permission of every role.

    Raises:
        ValueError: a permission stands in two places, so that taking away one of them would show nothing.
    """
    found: dict[Permission, Place] = {}
    for role in of_type("AWS::IAM::Role"):
        for name, document in _policies(role):
            for permission, place in _of_document(role, name, document):
                if permission in found:
                    raise ValueError(f"{permission} stands in {found[permission]} and in {place}")
                found[permission] = place
    return found


def _policies(role: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for policy in properties(role).get("Policies", []):
        yield policy["PolicyName"], policy["PolicyDocument"]
    for policy in properties(role).get("ManagedPolicyArns", []):
        if policy != {"Ref": _MANAGED}:
            raise ValueError(f"{role} has a policy that is not written here: {policy}")
        yield _MANAGED, properties(_MANAGED)["PolicyDocument"]


def _of_document(role: str, policy: str, document: Mapping[str, Any]) -> Iterator[tuple[Permission, Place]]:
    for number, each in enumerate(document["Statement"]):
        statement = each["Fn::If"][1] if "Fn::If" in each else each
        if statement["Effect"] != "Allow" or "Condition" in statement:
            raise ValueError(f"{role} does more than allow: {statement}")
        for action in as_list(statement["Action"]):
            for index, resource in enumerate(as_list(statement["Resource"])):
                yield Permission(role, action, _name(resource)), Place(policy, number, index)


def _name(resource: str | Mapping[str, str]) -> str:
    if isinstance(resource, str):
        return resource
    ((form, text),) = resource.items()
    if form == "Fn::Sub":
        return text.partition("${AWS::AccountId}:")[2].replace("${AWS::StackName}", "STACK")
    return text.removesuffix(".Arn")


def without(policy: str, document: Mapping[str, Any], taken: Collection[tuple[str, Place]]) -> dict[str, Any]:
    """Return a policy's document without some actions at their places; it grants everything else as before."""
    statements = []
    for number, statement in enumerate(document["Statement"]):
        for action in as_list(statement["Action"]):
            left = [
                resource
                for index, resource in enumerate(as_list(statement["Resource"]))
                if (action, Place(policy, number, index)) not in taken
            ]
            if left:
                statements.append({"Effect": "Allow", "Action": action, "Resource": left})
    return {"Version": "2012-10-17", "Statement": statements}
