"""The deployed product, its functions called one by one, and its roles as they are told to be."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from local.fleet.conversations import BRIEFING
from local.stack.deploy import STACK_NAME
from tests.e2e.conftest import Watched
from tests.privileges.permissions import Permission, Place, granted, without
from tests.template import as_list

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from blsflow.adapters.postgres.connection import Session
    from local.product import LocalProduct

TENANT = BRIEFING.tenant_id
"""Whose policies, machines and conversations are worked on."""
_API_TIMEOUT_SEC = 40
_POLL_SEC = 0.5


class Observed(NamedTuple):
    """What came of a piece of work: whether its effect is there, and what was said about it."""

    done: bool
    told: str


class Stage(Watched):
    """A running product of which single functions are made to work; one for each thread."""

    def __init__(self, product: LocalProduct, session: Session) -> None:
        super().__init__(product, session)
        self._http = httpx.Client(timeout=_API_TIMEOUT_SEC)

    def cold(self, function: str) -> None:
        """Let go of a function's containers, with the connections, clients and secrets that they hold."""
        functions = self.client("lambda")
        name = f"{STACK_NAME}-{function}"
        functions.update_function_configuration(
            FunctionName=name, Timeout=functions.get_function_configuration(FunctionName=name)["Timeout"]
        )
        functions.get_waiter("function_updated_v2").wait(FunctionName=name)

    def call(self, function: str, event: Mapping[str, object] | None = None) -> Observed:
        """Call a function; it is done if it neither raised, nor failed a message, nor logged that something failed."""
        since = time.time()
        answer = self.client("lambda").invoke(
            FunctionName=f"{STACK_NAME}-{function}", Payload=json.dumps(event or {})
        )
        payload = answer["Payload"].read().decode()
        logged = self.logged(function, since)
        failed = "FunctionError" in answer or '"itemIdentifier"' in payload
        failed = failed or any(line.get("failures") for line in logged)
        return Observed(not failed, payload + json.dumps(logged))

    def deliver(self, function: str, body: Mapping[str, object]) -> Observed:
        """Call a function with one message, as its queue does."""
        return self.call(function, {"Records": [{"messageId": "1", "body": json.dumps(body)}]})

    def logged(self, function: str, since: float) -> list[dict[str, Any]]:
        """Return what a function has logged since a moment (seconds since 1970)."""
        pages = self.client("logs").get_paginator("filter_log_events")
        group = f"/aws/lambda/{STACK_NAME}-{function}"
        told = [
            json.loads(event["message"])
            for page in pages.paginate(logGroupName=group, startTime=int(since * 1000))
            for event in page["events"]
            if event["message"].startswith("{")
        ]
        return [line for line in told if "level" in line]

    def ask(
        self, method: str, path: str, *, expected: int, function: str = "api", body: object = None
    ) -> Observed:
        """Ask the deployed API through its gateway as a tenant; it is done if it answers with the expected status."""
        since = time.time()
        answer = self._http.request(
            method,
            self.product.api_url + path,
            json=body,
            headers={"Authorization": f"Bearer {self._token}", "Idempotency-Key": str(uuid.uuid4())},
        )
        told = f"{answer.status_code} {answer.text} {json.dumps(self.logged(function, since))}"
        return Observed(answer.status_code == expected, told)

    @cached_property
    def _token(self) -> str:
        """A token that may do everything of a tenant."""
        asked = {"grant_type": "client_credentials", "tenant_id": TENANT}
        return str(self._http.post(f"{self.product.issuer_url}/token", data=asked).json()["access_token"])

    def waiting(self, queue: str) -> int:
        """Return how many messages wait in a queue of the template."""
        answer = self.client("sqs").get_queue_attributes(
            QueueUrl=self.output(f"{queue}Url"), AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    def until(self, happened: Any, *, within_sec: float) -> bool:
        """Look until it happened; whether it did."""
        ends = time.monotonic() + within_sec
        while not happened():
            if time.monotonic() > ends:
                return False
            time.sleep(_POLL_SEC)
        return True

    def clockwork(self, state: str) -> None:
        """Enable or disable what calls functions by itself: the schedules, and the queues' deliveries."""
        scheduler, functions = self.client("scheduler"), self.client("lambda")
        for each in scheduler.list_schedules()["Schedules"]:
            found = scheduler.get_schedule(Name=each["Name"], GroupName=each["GroupName"])
            kept = ("Name", "GroupName", "ScheduleExpression", "FlexibleTimeWindow", "Target", "Description")
            scheduler.update_schedule(State=state, **{name: found[name] for name in kept if name in found})
        for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
            functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=state == "ENABLED")


class Roles:
    """The deployed roles: each has what the template grants, without what is taken away from it.

    Managed policies are replaced by inline ones of the same content, so that one role loses a permission and others keep it.
    """

    def __init__(self, product: LocalProduct) -> None:
        self._iam = product.stack.client("iam")
        self._granted = granted()
        resources = product.stack.client("cloudformation").describe_stack_resources(StackName=STACK_NAME)
        self._names = {
            each["LogicalResourceId"]: each["PhysicalResourceId"] for each in resources["StackResources"]
        }
        self._documents = {role: self._read(role) for role in {each.role for each in self._granted}}

    def differences(self) -> list[str]:
        """Return where the deployed policies are not those of the template, statement by statement."""
        found = []
        for role, documents in self._documents.items():
            expected = {
                (place.policy, place.statement, each.action, place.resource)
                for each, place in self._granted.items()
                if each.role == role
            }
            deployed = {
                (policy, number, action, index)
                for policy, document in documents.items()
                for number, statement in enumerate(document["Statement"])
                for action in as_list(statement["Action"])
                for index, _ in enumerate(as_list(statement["Resource"]))
            }
            found += [f"{role}: {each}" for each in sorted(expected ^ deployed)]
        return found

    def take(self, role: str, taken: Collection[Permission]) -> None:
        """Let a role have everything but these permissions."""
        places: set[tuple[str, Place]] = {
            (each.action, self._granted[each]) for each in taken if each.role == role
        }
        for policy, document in self._documents[role].items():
            left = without(policy, document, places)
            if left["Statement"]:
                self._iam.put_role_policy(
                    RoleName=self._names[role], PolicyName=policy, PolicyDocument=json.dumps(left)
                )
            else:
                with contextlib.suppress(self._iam.exceptions.NoSuchEntityException):
                    self._iam.delete_role_policy(RoleName=self._names[role], PolicyName=policy)

    def _read(self, role: str) -> dict[str, Any]:
        """Return the documents of a role by policy, after making all of them its own."""
        name = self._names[role]
        for managed in self._iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            arn = managed["PolicyArn"]
            version = self._iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
            document = self._iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"][
                "Document"
            ]
            logical = next(key for key, value in self._names.items() if value == arn)
            self._iam.put_role_policy(RoleName=name, PolicyName=logical, PolicyDocument=json.dumps(document))
            self._iam.detach_role_policy(RoleName=name, PolicyArn=arn)
        return {
            policy: self._iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
            for policy in self._iam.list_role_policies(RoleName=name)["PolicyNames"]
        }
