"""What a decide document means to the domain: a policy, a valued market, and its machines (R3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from blsflow.documents import located
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.inputs import ClusterInput, ProjectInput, Scope, TickInputs
from blsflow.domain.machine import BENCHMARK_FLAGS, MACHINE_FLAGS, UNKNOWN, Benchmark, Machine, Status
from blsflow.domain.market import MachineClass, Market
from blsflow.domain.price_level import PriceLevel, observe
from blsflow.domain.prices import judge_price
from blsflow.domain.reading import Known
from blsflow.domain.units import HashFamily, parse_hashrate, parse_power
from blsflow.domain.valuation import Valuation, value_market

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from blsflow.domain.policy import Policy
    from blsflow_cli.decide_document import (
        BenchmarkDocument,
        DecideDocument,
        HashrateDocument,
        MachineDocument,
        PowerDocument,
        ProjectDocument,
        ResourcesDocument,
        WorldDocument,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class DecideInputs:
    """What a decide document means."""

    policy: Policy
    valuation: Valuation
    machines: tuple[Machine, ...]

    @property
    def market(self) -> Market:
        """The market that the machines share."""
        return self.valuation.market


def inputs_of(document: DecideDocument) -> DecideInputs:
    """Value the document's market and read its machines; `InvalidDocument` names what cannot be meant."""
    with located("policy"):
        policy = document.policy.policy()
    check_references(document)
    classes = classes_of(document)
    now = document.now.astimezone(UTC)
    inputs = TickInputs(
        projects=tuple(_project(project) for project in document.projects),
        clusters=clusters_of(document),
        classes=tuple(classes.values()),
        scope=Scope(everything=True),
        others=(),
        levels={p.id: level for p in document.projects if (level := _level(p, policy)) is not None},
    )
    valuation = value_market(inputs, policy, now=now, rate=document.usdt_to_cny_rate)
    return DecideInputs(policy=policy, valuation=valuation, machines=machines_of(document, policy, classes))


def check_references(document: WorldDocument) -> None:
    """Refuse ids that name nothing, or two things."""
    projects = _unique("projects", [project.id for project in document.projects])
    clusters = _unique("clusters", [cluster.id for cluster in document.clusters])
    _unique("machines", [machine.id for machine in document.machines])
    for position, project in enumerate(document.policy.candidates):
        _known(f"policy.candidates[{position}]", project, projects, "projects")
    for position, window in enumerate(document.policy.windows):
        _known(f"policy.windows[{position}].project_id", window.project_id, projects, "projects")
    for position, machine in enumerate(document.machines):
        path = f"machines[{position}]"
        _known(f"{path}.cluster_id", machine.cluster_id, clusters, "clusters")
        _known(f"{path}.project_id", machine.project_id, projects, "projects")
        measured = [benchmark.project_id for benchmark in machine.benchmarks]
        _unique(f"{path}.benchmarks", measured)
        for at, benchmark in enumerate(measured):
            _known(f"{path}.benchmarks[{at}].project_id", benchmark, projects, "projects")


def _unique(path: str, ids: list[int]) -> set[int]:
    seen: set[int] = set()
    for each in ids:
        if each in seen:
            raise InvalidDocument(field=path, value=each, cause="names one id twice")
        seen.add(each)
    return seen


def _known(path: str, wanted: int | None, known: set[int], where: str) -> None:
    if wanted is not None and wanted not in known:
        raise InvalidDocument(
            field=path, value=wanted, cause=f"is not the id of any of the document's {where}"
        )


def machines_of(
    document: WorldDocument, policy: Policy, classes: Mapping[tuple[int, str], MachineClass]
) -> tuple[Machine, ...]:
    """The document's machines."""
    machines = []
    for position, machine in enumerate(document.machines):
        with located(f"machines[{position}]"):
            index = classes[machine.cluster_id, machine.model].index
            machines.append(_machine(machine, index, policy, document.projects))
    return tuple(machines)


def classes_of(document: WorldDocument) -> dict[tuple[int, str], MachineClass]:
    """The classes that the document's machines make up, by cluster and model."""
    pairs = dict.fromkeys((machine.cluster_id, machine.model) for machine in document.machines)

    def named(resources: ResourcesDocument, cluster_id: int, model: str) -> bool:
        return cluster_id in resources.clusters or model in resources.models

    return {
        (cluster_id, model): MachineClass(
            index=index,
            cluster_id=cluster_id,
            model=model,
            run_configs={
                project.id: project.run_configurations[model]
                for project in document.projects
                if model in project.run_configurations
            },
            allowed=frozenset(p.id for p in document.projects if named(p.allowed, cluster_id, model)),
            denied=frozenset(p.id for p in document.projects if named(p.denied, cluster_id, model)),
        )
        for index, (cluster_id, model) in enumerate(pairs)
    }


def _project(project: ProjectDocument) -> ProjectInput:
    price = project.price
    raw = None if price is None else price.raw(price.revenue, price.taken_at, flags=price.flags)
    return ProjectInput(project_id=project.id, name=project.name, algorithm=project.algorithm, raw=raw)


def _level(project: ProjectDocument, policy: Policy) -> PriceLevel | None:
    """The price level that a project's history leads up to."""
    level = None
    for past in project.price.history if project.price else ():
        assert project.price is not None  # noqa: S101 - without a price there is no history
        reading = judge_price(
            project.price.raw(past.revenue, past.taken_at),
            now=past.taken_at,
            max_age_sec=policy.profit_max_age_sec,
            expected_algorithm=project.algorithm,
            expected_family=project.family,
        )
        if isinstance(reading, Known):
            level, _, _ = observe(
                level,
                reading.value,
                reading.taken_at,
                jump_factor=policy.price_jump_factor,
                hold_sec=policy.price_hold_sec,
            )
    return level


def clusters_of(document: WorldDocument) -> tuple[ClusterInput, ...]:
    """The document's clusters with their tariffs."""
    clusters = []
    for position, cluster in enumerate(document.clusters):
        tariffs = []
        for at, tariff in enumerate(cluster.tariffs):
            with located(f"clusters[{position}].tariffs[{at}]"):
                tariffs.append(tariff.tariff())
        clusters.append(ClusterInput(cluster_id=cluster.id, tariffs=tuple(tariffs)))
    return tuple(clusters)


def _machine(
    machine: MachineDocument, class_index: int, policy: Policy, projects: Iterable[ProjectDocument]
) -> Machine:
    by_id = {project.id: project for project in projects}
    running = by_id.get(machine.project_id or 0)
    benchmarks = []
    for position, benchmark in enumerate(machine.benchmarks):
        with located(f"benchmarks[{position}]"):
            benchmarks.append(_benchmark(benchmark, by_id[benchmark.project_id].family))
    bits = {project: 1 << position for position, project in enumerate(policy.considered_projects)}
    return Machine(
        machine_id=machine.id,
        class_index=class_index,
        status=Status[machine.status.upper()],
        project_id=machine.project_id or 0,
        # without a project nobody can say what the reported hashrate counts
        hashrate_hs=UNKNOWN if running is None else _hashrate_hs(machine.hashrate, running.family),
        power_w=_power_w(machine.power),
        project_since=_epoch(machine.project_since),
        reported_at=_epoch(machine.reported_at),
        flags=sum(MACHINE_FLAGS[flag] for flag in set(machine.flags)),
        foreign_changes=machine.foreign_changes,
        allow_bits=sum(bits.get(p.id, 0) for p in by_id.values() if machine.id in p.allowed.machines),
        deny_bits=sum(bits.get(p.id, 0) for p in by_id.values() if machine.id in p.denied.machines),
        benchmarks=tuple(benchmarks),
    )


def _benchmark(benchmark: BenchmarkDocument, family: HashFamily) -> Benchmark:
    return Benchmark(
        project_id=benchmark.project_id,
        hashrate_hs=_hashrate_hs(benchmark.hashrate, family),
        power_w=_power_w(benchmark.power),
        sampled_at=_epoch(benchmark.sampled_at),
        flags=sum(BENCHMARK_FLAGS[flag] for flag in set(benchmark.flags)),
    )


def _hashrate_hs(hashrate: HashrateDocument | None, family: HashFamily) -> float:
    if hashrate is None:
        return UNKNOWN
    return parse_hashrate(hashrate.value, hashrate.unit, expected_family=family, field="hashrate")


def _power_w(power: PowerDocument | None) -> float:
    return UNKNOWN if power is None else parse_power(power.value, power.unit, field="power")


def _epoch(at: datetime | None) -> float:
    return UNKNOWN if at is None else at.timestamp()
