"""What the search leaves: random hill climbing on the simulator from the plan that it found.

    python bench/headroom.py [NETWORK ...] [--on MACHINE ...] [--evaluations 3000] [--seeds 1]
    python bench/headroom.py --random 10 [--evaluations 500]

The moves are written apart from the search's and know nothing of costs: merge two groups, part one,
shift an operator to a neighbour, cut otherwise, divide among the cores otherwise, keep, drop or
reload a tensor, move data on the cores or in the main memory, run independent groups in another
order; at one place, or at all that look alike. Each plan is simulated; what is better is gone on
from. `gain` is what the climb took off the cycles of the search, in percent; `wins` says by which
moves. `--random` climbs on random small networks with layout operators on random machines (1-8
cores, 128 KiB-4 MiB, 4-128 GB/s). `--save DIR` writes the plans.
"""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from headroom_cases import random_machine, random_network

from tilewright import api
from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place, Plan, plan_text
from tilewright.planning import prepared
from tilewright.program.lowering import Lowering
from tilewright.search.fusion import Fusion
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import typed_group

NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "unet", "vit_b16", "fsrcnn@540x960")
PARTS = (2, 2, 3, 4, 4, 6, 7, 8, 12, 14, 16, 28, 32)
ALIKE = 0.35  # share of moves that are made at all places that look alike
MOVABLE = frozenset(
    "Concat Split Slice Reshape Transpose Resize Pad DepthToSpace SpaceToDepth Squeeze Unsqueeze "
    "Flatten Expand".split()
)


class Climber:
    """Random moves on plans of one network."""

    def __init__(self, graph: Graph, machine: Machine, dtype: str, seed: int) -> None:
        self.graph, self.machine = graph, machine
        self.chance = random.Random(seed)
        self.lowering = Lowering(graph, machine, dtype)
        self.made = {name: n for n, node in enumerate(graph.nodes) for name in node.writes}
        self.readers: dict[str, list[int]] = {}
        for number, node in enumerate(graph.nodes):
            for name in node.reads:
                self.readers.setdefault(name, []).append(number)
        self.makers = [
            sorted({self.made[name] for name in node.reads if name in self.made})
            for node in graph.nodes
        ]
        self.cuttable = [self._can_be_cut(n) for n in range(len(graph.nodes))]
        self.moves: dict[str, Callable[[Plan], Plan | None]] = {
            "merge": self.merge,
            "part": self.part,
            "shift": self.shift,
            "recut": self.recut,
            "nudge": self.nudge,
            "divide": self.divide,
            "keep": self.keep,
            "drop": self.drop,
            "reload": self.reload,
            "place": self.place,
            "order": self.order,
            "halo": self.halo,
            "grain": self.grain,
        }

    def climb(self, plan: Plan, evaluations: int) -> tuple[Plan, int, dict[str, float], int]:
        """The best plan reached, its cycles, percent gained by each move, evaluations that fit."""
        best = self.lowering.cycles(plan)
        assert best is not None, "the search's plan does not fit without remedies"
        start, done, fitting = best, 0, 0
        gains: dict[str, float] = {}
        seen = {plan}
        idle = 0
        while done < evaluations and idle < 50 * evaluations:
            names = [self.chance.choice(list(self.moves))]
            while self.chance.random() < 0.25:  # moves compose
                names.append(self.chance.choice(list(self.moves)))
            moved: Plan | None = plan
            for name in names:
                moved = None if moved is None else self.moves[name](moved)
            if moved is None or moved in seen:
                idle += 1
                continue
            seen.add(moved)
            done += 1
            reached = self.lowering.cycles(moved)
            fitting += reached is not None
            if reached is not None and reached < best:
                move = "+".join(names)
                gains[move] = gains.get(move, 0.0) + 100 * (best - reached) / start
                plan, best = moved, reached
        return plan, best, gains, fitting

    # -- what plans are made of -----------------------------------------------------------------

    def _can_be_cut(self, node: int) -> bool:
        try:
            typed_group(self.graph, [node])
        except TilewrightError:
            return False
        return True

    def members(self, group: GroupPlan) -> list[int]:
        """The numbers of a group's nodes."""
        return sorted(self.graph.index[name] for name in group.nodes)

    def named(self, nodes: list[int]) -> tuple[str, ...]:
        """The names of nodes, in the order of the network."""
        return tuple(self.graph.nodes[n].name for n in sorted(nodes))

    def leaving(self, nodes: list[int]) -> list[str]:
        """Values that a group hands on."""
        inside = set(nodes)
        return [
            name
            for n in nodes
            for name in self.graph.nodes[n].writes
            if name in self.graph.outputs
            or any(r not in inside for r in self.readers.get(name, ()))
        ]

    def look(self, group: GroupPlan) -> tuple[object, ...]:
        """Groups with equal looks have the same operators on the same shapes, cut alike."""
        rows: list[object] = [group.splits, group.core_split, group.replicated, group.place]
        for n in self.members(group):
            node = self.graph.nodes[n]
            rows.append(node.kind)
            for name in (*node.reads, *node.writes):
                rows.append((self.graph.types[name].shape, name in self.graph.constants))
        return tuple(rows)

    def alike(self, plan: Plan, number: int) -> list[int]:
        """A group, sometimes with all that look the same."""
        if self.chance.random() > ALIKE:
            return [number]
        look = self.look(plan.groups[number])
        return [n for n, group in enumerate(plan.groups) if self.look(group) == look]

    def sorted_plan(self, plan: Plan, groups: list[GroupPlan]) -> Plan | None:
        """Groups in an order that runs, near the one given; None where there is a circle."""
        home = {name: n for n, group in enumerate(groups) for name in group.nodes}
        waits = [
            {home[self.graph.nodes[m].name] for n in self.members(group) for m in self.makers[n]}
            - {number}
            for number, group in enumerate(groups)
        ]
        left, done, order = list(range(len(groups))), set[int](), list[int]()
        while left:
            ready = next((n for n in left if waits[n] <= done), None)
            if ready is None:
                return None
            left.remove(ready)
            done.add(ready)
            order.append(ready)
        given = {
            name
            for group in groups
            if group.place is Place.CORES
            for name in self.leaving(self.members(group))
        }
        return replace(
            plan,
            groups=tuple(groups[n] for n in order),
            resident=tuple(name for name in plan.resident if name in given),
            reloaded=tuple(row for row in plan.reloaded if row[0] in given),
        )

    def on_cores(self, plan: Plan) -> list[int]:
        """Groups that run on cores."""
        return [n for n, group in enumerate(plan.groups) if group.place is Place.CORES]

    def random_cut(self, nodes: list[int], like: list[GroupPlan]) -> GroupPlan:
        """Nodes as a group: cut as one of some others, or anyhow."""
        names = self.named(nodes)
        if like and self.chance.random() < 0.5:
            return replace(self.chance.choice(like), nodes=names, place=Place.CORES)
        shape = self.graph.types[self.leaving(nodes)[-1]].shape
        axes = [axis for axis, extent in enumerate(shape) if extent > 1]
        chosen = self.chance.sample(axes, min(len(axes), self.chance.choice((0, 1, 1, 1, 2, 2))))
        splits = tuple(
            Split(axis, min(shape[axis], self.chance.choice(PARTS) * self.chance.choice((1, 1, 2))))
            for axis in chosen
        )
        core_split = self.chance.choice(
            (None, *range(len(splits)), *([0] * min(3, 3 * len(splits))))
        )
        replicated = core_split is None and self.chance.random() < 0.6
        return GroupPlan(names, splits, core_split, replicated=replicated)

    # -- moves ----------------------------------------------------------------------------------

    def merge(self, plan: Plan) -> Plan | None:
        """A group and one that reads from it (or one beside it), everywhere the same pair is."""
        home = {n: g for g, group in enumerate(plan.groups) for n in self.members(group)}
        number = self.chance.randrange(len(plan.groups))
        first = plan.groups[number]
        nexts = sorted(
            {home[r] for v in self.leaving(self.members(first)) for r in self.readers.get(v, ())}
        )
        if self.chance.random() < 0.15:
            sources = {v for n in self.members(first) for v in self.graph.nodes[n].reads}
            nexts = sorted({home[r] for v in sources for r in self.readers.get(v, ())} - {number})
        if not nexts:
            return None
        other = plan.groups[self.chance.choice(nexts)]
        pairs = [(number, home[self.members(other)[0]])]
        if self.chance.random() < ALIKE:
            looks = self.look(first), self.look(other)
            taken = set(pairs[0])
            for a, group in enumerate(plan.groups):
                if a in taken or self.look(group) != looks[0]:
                    continue
                for v in self.leaving(self.members(group)):
                    for b in sorted({home[r] for r in self.readers.get(v, ())} - {a}):
                        if (
                            a not in taken
                            and b not in taken
                            and self.look(plan.groups[b]) == looks[1]
                        ):
                            pairs.append((a, b))
                            taken |= {a, b}
        if not all(self.cuttable[n] for n in (*self.members(first), *self.members(other))):
            return None
        cores = [group for group in (first, other) if group.place is Place.CORES]
        cut = self.random_cut([*self.members(first), *self.members(other)], cores)
        groups: list[GroupPlan | None] = list(plan.groups)
        for a, b in pairs:
            if groups[a] is None or groups[b] is None or a == b:
                continue
            nodes = [*self.members(plan.groups[a]), *self.members(plan.groups[b])]
            groups[b] = replace(cut, nodes=self.named(nodes))
            groups[a] = None
        return self.sorted_plan(plan, [group for group in groups if group is not None])

    def part(self, plan: Plan) -> Plan | None:
        """A group in two, what passes between them kept or not."""
        several = [n for n in self.on_cores(plan) if len(plan.groups[n].nodes) > 1]
        if not several:
            return None
        chosen = self.alike(plan, self.chance.choice(several))
        position = self.chance.randrange(1, len(plan.groups[chosen[0]].nodes))
        keeps, own = self.chance.random() < 0.6, self.chance.random() < 0.6
        groups: list[GroupPlan] = []
        kept = list(plan.resident)
        cuts: tuple[GroupPlan, GroupPlan] | None = None
        for number, group in enumerate(plan.groups):
            if number not in chosen:
                groups.append(group)
                continue
            nodes = self.members(group)
            parts = nodes[:position], nodes[position:]
            if cuts is None:
                one, two = (self.random_cut(part, [group] if own else []) for part in parts)
                cuts = one, two
            for part, cut in zip(parts, cuts, strict=True):
                groups.append(replace(cut, nodes=self.named(part)))
            if keeps:
                read = {name for n in parts[1] for name in self.graph.nodes[n].reads}
                kept += [name for name in self.leaving(parts[0]) if name in read]
        resident = tuple(dict.fromkeys(kept))
        return self.sorted_plan(replace(plan, resident=resident), groups)

    def shift(self, plan: Plan) -> Plan | None:
        """An operator goes over to the group before or behind it."""
        number = self.chance.choice(self.on_cores(plan))
        group = plan.groups[number]
        if len(group.nodes) < 2:
            return None
        nodes = self.members(group)
        home = {n: g for g, other in enumerate(plan.groups) for n in self.members(other)}
        node = self.chance.choice((nodes[0], nodes[-1]))
        near = {home[m] for m in self.makers[node]}
        for name in self.graph.nodes[node].writes:
            near |= {home[r] for r in self.readers.get(name, ())}
        near = {n for n in near - {number} if plan.groups[n].place is Place.CORES}
        if not near or not self.cuttable[node]:
            return None
        target = self.chance.choice(sorted(near))
        groups = list(plan.groups)
        groups[number] = replace(group, nodes=self.named([n for n in nodes if n != node]))
        joined = [*self.members(groups[target]), node]
        groups[target] = replace(groups[target], nodes=self.named(joined))
        return self.sorted_plan(plan, groups)

    def _with(self, plan: Plan, numbers: list[int], cut: GroupPlan) -> Plan:
        groups = list(plan.groups)
        for number in numbers:
            groups[number] = replace(cut, nodes=groups[number].nodes)
        return replace(plan, groups=tuple(groups))

    def recut(self, plan: Plan) -> Plan | None:
        """Other axes and parts."""
        number = self.chance.choice(self.on_cores(plan))
        cut = self.random_cut(self.members(plan.groups[number]), [])
        return self._with(plan, self.alike(plan, number), cut)

    def nudge(self, plan: Plan) -> Plan | None:
        """A few parts more or less along an axis."""
        number = self.chance.choice(self.on_cores(plan))
        group = plan.groups[number]
        if not group.splits:
            return None
        position = self.chance.randrange(len(group.splits))
        split = group.splits[position]
        times, plus = self.chance.choice(((2, 0), (0.5, 0), (1, 1), (1, -1), (1, 2), (1, -2)))
        parts = int(split.parts * times) + plus
        if parts < 1:
            return None
        splits = list(group.splits)
        splits[position] = replace(split, parts=parts)
        return self._with(plan, self.alike(plan, number), replace(group, splits=tuple(splits)))

    def divide(self, plan: Plan) -> Plan | None:
        """The same tiles on cores otherwise: another dimension, all everywhere, some cores only."""
        number = self.chance.choice(self.on_cores(plan))
        group = plan.groups[number]
        core_split = self.chance.choice((None, *range(len(group.splits))))
        replicated = core_split is None and self.chance.random() < 0.6
        names = [core.name for core in self.machine.cores]
        cores = group.cores
        if self.chance.random() < 0.3:
            count = self.chance.randrange(len(names))
            cores = tuple(sorted(self.chance.sample(names, count), key=names.index))
        cut = replace(group, core_split=core_split, replicated=replicated, cores=cores)
        return self._with(plan, self.alike(plan, number), cut)

    def grain(self, plan: Plan) -> Plan | None:
        """Tiles at other multiples."""
        cut = [n for n in self.on_cores(plan) if plan.groups[n].splits]
        if not cut:
            return None
        number = self.chance.choice(cut)
        splits = list(plan.groups[number].splits)
        place = self.chance.randrange(len(splits))
        splits[place] = replace(splits[place], grain=self.chance.choice((1, 2, 4, 8, 16, 32)))
        changed = replace(plan.groups[number], splits=tuple(splits))
        return self._with(plan, self.alike(plan, number), changed)

    def halo(self, plan: Plan) -> Plan | None:
        """Halo computed again, or kept from tile to tile along an axis."""
        cut = [n for n in self.on_cores(plan) if plan.groups[n].splits]
        if not cut:
            return None
        number = self.chance.choice(cut)
        group = plan.groups[number]
        chosen = self.chance.choice((-1, *range(len(group.splits))))
        splits = tuple(
            replace(split, halo=Halo.CACHE if n == chosen else Halo.RECOMPUTE)
            for n, split in enumerate(group.splits)
        )
        return self._with(plan, self.alike(plan, number), replace(group, splits=splits))

    def handed_on(self, plan: Plan) -> list[str]:
        """Values that groups on cores hand to groups on cores."""
        home = {n: g for g in plan.groups for n in self.members(g)}
        found: list[str] = []
        for group in plan.groups:
            if group.place is Place.CORES:
                for name in self.leaving(self.members(group)):
                    rows = self.readers.get(name, ())
                    if any(home[r] is not group and home[r].place is Place.CORES for r in rows):
                        found.append(name)
        return found

    def keep(self, plan: Plan) -> Plan | None:
        """A tensor, or several of one shape, resident."""
        names = [name for name in self.handed_on(plan) if name not in plan.resident]
        if not names:
            return None
        name = self.chance.choice(names)
        shape = self.graph.types[name].shape
        if self.chance.random() < ALIKE:
            names = [other for other in names if self.graph.types[other].shape == shape]
        else:
            names = [name]
        return replace(plan, resident=(*plan.resident, *names))

    def drop(self, plan: Plan) -> Plan | None:
        """A tensor no longer resident."""
        if not plan.resident:
            return None
        gone = self.chance.choice(plan.resident)
        reloaded = tuple(row for row in plan.reloaded if row[0] != gone)
        resident = tuple(name for name in plan.resident if name != gone)
        return replace(plan, resident=resident, reloaded=reloaded)

    def reload(self, plan: Plan) -> Plan | None:
        """Some readers of a resident tensor load it again, or no longer do."""
        if not plan.resident:
            return None
        name = self.chance.choice(plan.resident)
        nodes = self.named(self.readers.get(name, []))
        rows = {key: row for key, row in plan.reloaded if key != name}
        chosen = tuple(node for node in nodes if self.chance.random() < 0.5)
        if chosen:
            rows[name] = chosen
        return replace(plan, reloaded=tuple(rows.items()))

    def place(self, plan: Plan) -> Plan | None:
        """Data movement on the cores, in the main memory, or as a view."""
        rows = [
            n
            for n, group in enumerate(plan.groups)
            if len(group.nodes) == 1 and self.graph.nodes[self.members(group)[0]].kind in MOVABLE
        ]
        if not rows:
            return None
        number = self.chance.choice(rows)
        where = self.chance.choice((Place.CORES, Place.CORES, Place.MAIN, Place.VIEW))
        if where is Place.CORES:
            near = [g for g in plan.groups if g.place is Place.CORES and g.splits]
            cut = self.random_cut(self.members(plan.groups[number]), near[:3])
        else:
            cut = GroupPlan((), (), None, where)
        groups = list(plan.groups)
        for n in self.alike(plan, number):
            groups[n] = replace(cut, nodes=groups[n].nodes)
        moved = self.sorted_plan(plan, groups)
        if moved is None or where is not Place.CORES or self.chance.random() < 0.3:
            return moved
        around = {
            name
            for n in self.members(plan.groups[number])
            for name in (*self.graph.nodes[n].reads, *self.graph.nodes[n].writes)
        }
        names = [n for n in self.handed_on(moved) if n in around and n not in moved.resident]
        return replace(moved, resident=(*moved.resident, *names))

    def order(self, plan: Plan) -> Plan | None:
        """A group at another place in the order."""
        groups = list(plan.groups)
        number = self.chance.randrange(len(groups))
        group = groups.pop(number)
        groups.insert(max(0, number + self.chance.choice((-3, -2, -1, 1, 2, 3))), group)
        return self.sorted_plan(plan, groups)


def headroom(
    name: str, graph: Graph, machine: Machine, evaluations: int, seeds: int, save: Path | None
) -> Iterator[dict[str, Any]]:
    """Search, climb from the result with each seed, and say what was gained."""
    legal = prepared(graph, machine, machine.dtype).graph
    begin = time.process_time()
    found = Fusion(legal, machine, machine.dtype, name).run().best
    searched = time.process_time() - begin
    for seed in range(seeds):
        climber = Climber(legal, machine, machine.dtype, seed)
        if climber.lowering.cycles(found.plan) is None:
            yield {"network": name, "machine": machine.name, "note": "fits with remedies only"}
            return
        begin = time.process_time()
        plan, cycles, gains, fitting = climber.climb(found.plan, evaluations)
        if save is not None:
            save.mkdir(parents=True, exist_ok=True)
            stem = f"{name}.{machine.name}".replace("/", "_")
            (save / f"{stem}.searched.yaml").write_text(plan_text(found.plan))
            (save / f"{stem}.climbed{seed}.yaml").write_text(plan_text(plan))
        yield {
            "network": name,
            "machine": machine.name,
            "cores": len(machine.cores),
            "kib": machine.cores[0].memory.usable >> 10,
            "searched": found.cycles,
            "climbed": cycles,
            "gain": round(100 * (1 - cycles / found.cycles), 2),
            "wins": {move: round(gain, 2) for move, gain in Counter(gains).most_common(6)},
            "fitting": round(fitting / evaluations, 2),
            "search_s": round(searched, 1),
            "climb_s": round(time.process_time() - begin, 1),
        }


def main() -> None:
    """Climb, print a row each, save them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--on", nargs="+", default=["npu-2.7"])
    parser.add_argument("--evaluations", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--random", type=int, default=0, metavar="COUNT")
    parser.add_argument("--first", type=int, default=0, help="number of the first random case")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    cases: list[tuple[str, Graph, Machine]] = []
    for number in range(options.first, options.first + options.random):
        chance = random.Random(number)
        cases.append((f"random{number}", random_network(chance, number), random_machine(chance)))
    names = options.networks or (() if options.random else NETWORKS)
    for machine in options.on:
        cases += [(name, api.load(name).graph, load_machine(machine)) for name in names]
    rows: list[dict[str, Any]] = []
    for name, graph, machine in cases:
        try:
            for row in headroom(
                name, graph, machine, options.evaluations, options.seeds, options.save
            ):
                rows.append(row)
                print(json.dumps(row), flush=True)
        except TilewrightError as error:
            print(json.dumps({"network": name, "machine": machine.name, "error": str(error)}))
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
