"""Whether a plan can be one of a network: all that is wrong with it at once, each with its key."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from tilewright.errors import TilewrightError, TilingError
from tilewright.graph.graph import Graph
from tilewright.legalise import Legalised
from tilewright.legalise.steps import SCALES, rewritten_name
from tilewright.machine.document import Document
from tilewright.machine.faults import Keys
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place, Plan, PlanError, group_label
from tilewright.plan.read import PlanFileError
from tilewright.program.cut import wrong_shares
from tilewright.program.faults import LoweringError
from tilewright.program.main_memory import not_on_chip, off_cores, unshareable
from tilewright.program.place import DoesNotFitError
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.group import exports
from tilewright.units import noun

KeyFault = tuple[Keys, str]


class PlanFaultsError(PlanError):
    """A plan that is none of its network. The text is its first fault; `faults` are all, by key."""

    def __init__(self, label: object, faults: Sequence[KeyFault]) -> None:
        self.faults = tuple(faults)
        more = len(self.faults) - 1
        super().__init__(f"{label}: {self.faults[0][1]}{f' (and {more} more)' if more else ''}")

    def in_file(self, path: Path) -> PlanFileError:
        """The same with the lines of the file that the plan was read from."""
        document = Document(path, "a plan")
        found = [document.fault(keys, text) for keys, text in self.faults]
        return PlanFileError(found, " --model MODEL")


def check_plan(
    plan: Plan, label: object, graph: Graph, machine: Machine, choices: Collection[str] = ()
) -> None:
    """Raise unless a plan names every node of the (legalised) network once, in an order that
    runs, cuts its groups as they can be cut, and keeps tensors where they can be kept. `choices`
    are rewrites that decide which nodes there are."""
    faults = list(_faults(plan, graph, machine))
    named = {name for group in plan.groups for name in group.nodes}
    if choices and named != set(graph.index):
        faults.append(_of_other_rewrites(plan, choices))
    if faults:
        raise PlanFaultsError(label, faults)


def _of_other_rewrites(plan: Plan, choices: Collection[str]) -> KeyFault:
    """Why nodes may be unknown or missing: they are those of the network rewritten otherwise."""
    keys: Keys = () if plan.rewrites is None else ("rewrites",)
    chosen = ", ".join(plan.rewrites) if plan.rewrites else "none"
    text = f"the network's nodes also depend on rewrites (here {chosen}; it has a choice of"
    return keys, f"{text} {', '.join(choices)})"


def keys_of(error: TilewrightError, plan: Plan) -> Keys:
    """What of a plan an error on the way to a program is about, as far as that is known."""
    if isinstance(error, LoweringError) and error.resident in plan.resident:
        return "resident", plan.resident.index(error.resident)
    if isinstance(error, LoweringError | DoesNotFitError) and error.groups:
        return "groups", min(error.groups)
    if isinstance(error, LoweringError) and error.node:
        return "groups", next(n for n, group in enumerate(plan.groups) if error.node in group.nodes)
    return ()


def _faults(plan: Plan, graph: Graph, machine: Machine) -> Iterator[KeyFault]:
    """All that is wrong with a plan of a network, causes before what may follow from them; what
    cannot be told for other faults is left out."""
    home: dict[str, int] = {}
    unknown: set[int] = set()
    for number, group in enumerate(plan.groups):
        for place, name in enumerate(group.nodes):
            keys: Keys = ("groups", number, "nodes", place)
            if name not in graph.index:
                unknown.add(number)
                yield keys, f"groups[{number}] names '{name}': no such node"
            elif name in home:
                unknown.add(number)
                yield keys, f"'{name}' is in groups[{home[name]}] and [{number}]"
            else:
                home[name] = number
    yield from _wrong_cores(plan, machine)
    for place, name in enumerate(plan.rewrites or ()):
        known = rewritten_name(name) in graph.index or name == SCALES
        if not known and plan.images == 1:
            near = get_close_matches(name.lower(), (SCALES, *graph.index), 1)
            hint = f": did you mean '{near[0]}'?" if near else ""
            yield ("rewrites", place), f"rewrites names '{name}': no such node{hint}"
    missing = [node.name for node in graph.nodes if node.name not in home]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        yield ("groups",), f"no group has node '{missing[0]}'{more}"
    yield from _out_of_order(plan, graph, home)
    for number, group in enumerate(plan.groups):
        wrong = wrong_shares(group, len(machine.cores))
        if wrong:
            yield ("groups", number, "shares"), f"{group_label(number, group)} {wrong}"
        try:
            if group.place is Place.CORES and number not in unknown:
                cut_group(graph, (graph.index[name] for name in group.nodes), group.splits)
        except TilingError as error:
            yield ("groups", number), f"{group_label(number, group)}: {error}"
    for place, name in enumerate(plan.resident):
        fault = _not_resident(plan, graph, home, name)
        if name in plan.resident[:place]:
            fault = "it is named twice"
        if fault:
            yield ("resident", place), f"'{name}' cannot be resident: {fault}"
    yield from _reloaded_wrongly(plan, graph)
    yield from _shared_wrongly(plan, graph, machine, named=not missing and not unknown)


def _wrong_cores(plan: Plan, machine: Machine) -> Iterator[KeyFault]:
    """Cores that the machine does not have, or that a group names twice."""
    there = [core.name for core in machine.cores]
    for number, group in enumerate(plan.groups):
        for place, name in enumerate(group.cores):
            if name not in there:
                text = f"{group_label(number, group)} names core '{name}': there are "
                yield ("groups", number, "cores", place), text + ", ".join(there)
            elif name in group.cores[:place]:
                text = f"{group_label(number, group)} names core '{name}' twice"
                yield ("groups", number, "cores", place), text


def _out_of_order(plan: Plan, graph: Graph, home: Mapping[str, int]) -> Iterator[KeyFault]:
    """Values that are read before the group that makes them has run."""
    for node in graph.nodes:
        here = home.get(node.name)
        for value in node.reads if here is not None else ():
            maker = graph.producer.get(value)
            before = home.get(graph.nodes[maker].name, here) if maker is not None else here
            if here is not None and before is not None and before > here:
                yield (
                    ("groups", here),
                    f"{group_label(here, plan.groups[here])} needs '{value}', which "
                    f"{group_label(before, plan.groups[before])} makes only later",
                )


def _reloaded_wrongly(plan: Plan, graph: Graph) -> Iterator[KeyFault]:
    """Tensors that are not kept in the first place, and nodes that do not read them."""
    for name, nodes in plan.reloaded:
        if name not in plan.resident:
            what = "it is not resident" if name in graph.producer else "no node makes it"
            yield ("reloaded", name), f"'{name}' cannot be reloaded: {what}"
            continue
        readers = {graph.nodes[index].name for index in graph.consumers.get(name, ())}
        for place, node in enumerate(nodes):
            if node not in readers:
                what = "it does not read it" if node in graph.index else "there is no such node"
                yield ("reloaded", name, place), f"'{node}' cannot reload '{name}': {what}"


def _shared_wrongly(
    plan: Plan, graph: Graph, machine: Machine, *, named: bool
) -> Iterator[KeyFault]:
    """Memories that tensors cannot pass through, and, where all nodes are `named`, tensors that
    cannot lie in those that the plan names for them."""
    used, seen = off_cores(graph, plan.groups), dict[str, str]()
    for memory, names in plan.shared:
        wrong = not_on_chip(machine, memory)
        if wrong:
            yield ("shared", memory), wrong
            continue
        for place, name in enumerate(names if named else ()):
            fault = unshareable(graph, used, name)
            if name in seen:
                fault = f"it lies in {seen[name]} by an earlier entry"
            seen.setdefault(name, memory)
            if fault:
                yield ("shared", memory, place), f"'{name}' cannot lie in {memory}: {fault}"


def without_inner(plan: Plan, graph: Graph) -> tuple[Plan, list[KeyFault]]:
    """A plan without resident tensors that only their own group reads, as they are left over where
    groups were merged by hand, and a note for each such group. They live in tiles anyway."""
    inner: set[str] = set()
    notes: list[KeyFault] = []
    for number, group in enumerate(plan.groups):
        outside = exports(graph, [graph.index[name] for name in group.nodes])
        made = {name for node in group.nodes for name in graph.nodes[graph.index[node]].writes}
        here = [value for value in plan.resident if value in made and value not in outside]
        if here:
            inner.update(here)
            names = ", ".join(f"'{value}'" for value in here)
            text = (
                f"{names} {noun(len(here), 'is', 'are')} not kept as resident: only "
                f"{group_label(number, group)} reads {noun(len(here), 'it', 'them')}, tile by tile"
            )
            notes.append((("resident", plan.resident.index(here[0])), text))
    kept = tuple(value for value in plan.resident if value not in inner)
    reloaded = tuple(row for row in plan.reloaded if row[0] not in inner)
    return replace(plan, resident=kept, reloaded=reloaded), notes


def rewritten_in_vain(plan: Plan, legal: Legalised, machine: Machine) -> Iterator[KeyFault]:
    """Operators that are to be rewritten, where the machine leaves no choice."""
    chosen = {name for name, _ in (*legal.choices, *legal.forms)}
    made = {step.node for step in legal.steps if step.outcome == "rewritten"}
    for place, entry in enumerate(plan.rewrites or ()):
        name = rewritten_name(entry)
        if name not in chosen:
            why = "rewrites it anyway" if name in made else "has no other form of it"
            why = f"{machine.name} {why}"
            if name == SCALES:
                why = "the network has none that can be folded into weights"
            text = f"rewrites names '{entry}' to no effect: {why}"
            yield ("rewrites", place), text


def in_vain(plan: Plan, graph: Graph) -> Iterator[KeyFault]:
    """Resident tensors that nothing on the cores reads: they pass through the main memory; shared
    ones that pass nowhere, as only their own group reads them."""
    home = {name: number for number, group in enumerate(plan.groups) for name in group.nodes}
    reloaded = dict(plan.reloaded)
    for place, value in enumerate(plan.resident):
        readers = [graph.nodes[index] for index in graph.consumers.get(value, ())]
        ways = {
            r.name: f"place: {plan.groups[home[r.name]].place}"
            if r.name not in reloaded.get(value, ())
            else "reloaded"
            for r in readers
        }
        if f"place: {Place.CORES}" not in ways.values():
            some = ", ".join(f"'{r.name}' ({r.kind}, {ways[r.name]})" for r in readers)
            reads = f"only {some} {noun(len(readers), 'reads', 'read')} it, from the main memory"
            yield ("resident", place), f"'{value}' is resident to no effect: {reads}"
    for memory, names in plan.shared:
        for place, value in enumerate(names):
            maker = home[graph.nodes[graph.producer[value]].name]
            readers = [graph.nodes[index].name for index in graph.consumers.get(value, ())]
            if all(home[reader] == maker for reader in readers):
                where = group_label(maker, plan.groups[maker])
                text = f"'{value}' is in {memory} to no effect: only {where} reads it"
                yield ("shared", memory, place), text
            elif value in plan.resident and value not in reloaded:
                text = f"'{value}' is in {memory} to no effect: it is resident, and not reloaded"
                yield ("shared", memory, place), text


def _not_resident(plan: Plan, graph: Graph, home: Mapping[str, int], name: str) -> str:
    """Why a tensor cannot stay in the scratchpads, or nothing."""
    if name in graph.inputs:
        return "it is an input of the network, which the main memory holds"
    if name in graph.constants:
        return "it is a constant, which the main memory holds"
    if name not in graph.producer:
        return "no node makes a tensor of this name"
    maker = graph.producer[name]
    number = home.get(graph.nodes[maker].name)
    if number is None:
        return ""  # its node is missing, which is told
    label = group_label(number, plan.groups[number])
    if plan.groups[number].place is not Place.CORES:
        return f"{label} does not run on the cores"
    return "" if graph.consumers.get(name) else "nothing reads it"
