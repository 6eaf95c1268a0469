"""What all plans of one network on one machine have in common: layouts, costs, signatures, and the
tables that rows refer to. Worked out once, and kept while plans are compared."""

from typing import NamedTuple

from tilewright.graph.graph import Graph
from tilewright.graph.ops.views import dense_strides
from tilewright.machine.machine import Machine
from tilewright.program.constants import constant_strides, packs_of
from tilewright.program.faults import LoweringError
from tilewright.program.layout import Layouts
from tilewright.program.program import View
from tilewright.program.signature import signatures_of
from tilewright.program.tables import Layout, tables_of
from tilewright.program.tile_work import tile_works_of

Ints = tuple[int, ...]


class Lying(NamedTuple):
    """How a value lies between the groups that use it: in whose buffer, from which byte on, and in
    which memory: the main one, or another that all cores reach."""

    root: str
    offset: int
    layout: int
    memory: int


class Context:
    """One network on one machine, in one element type."""

    def __init__(self, graph: Graph, machine: Machine, dtype: str) -> None:
        self.graph, self.machine, self.dtype = graph, machine, dtype
        self.tables = tables_of(machine)
        self.layouts = Layouts.of(graph, machine, dtype)
        self.packs = packs_of(graph, self.layouts)
        self.signatures = signatures_of(graph)
        self.tile_works = tile_works_of(graph, dtype)
        self.main = self.tables.hardware.main
        self.usable: list[int] = self.tables.hardware.usable.tolist()
        self.home: list[int] = self.tables.hardware.home.tolist()
        self._locals: dict[tuple[int, Ints], tuple[int, Ints]] = {}
        self._kinds = {name: kind.dtype for name, kind in graph.types.items()}
        self._items: dict[str, int] = {}
        self._hops: dict[tuple[int, int], Ints] = {}
        self._lying: dict[str, Lying] = {}
        self._memory_of: dict[tuple[int, bool], int] = {}

    def item(self, name: str) -> int:
        """Bytes of one element of a value."""
        known = self._items.get(name)
        if known is None:
            known = self._items[name] = self.layouts.item(name)
        return known

    def kind(self, name: str) -> str:
        """The element type of a value."""
        return self._kinds[name]

    def layout(self, name: str, shape: Ints, strides: Ints) -> int:
        """The number of views of a value's elements that lie so."""
        return self.tables.layout(shape, strides, self._kinds[name], self.item(name))

    def local(self, name: str, shape: Ints) -> tuple[int, Ints]:
        """Bytes and strides of a region of a value in a core's memory."""
        key = (self.signatures.value(name), shape)
        known = self._locals.get(key)
        if known is None:
            known = self._locals[key] = (
                self.layouts.bytes(name, shape, aligned=True),
                self.layouts.strides(name, shape, aligned=True),
            )
        return known

    def memory_of(self, core: int, name: str) -> int:
        """The memory of a core that holds a value."""
        key = (core, name in self.graph.constants)
        known = self._memory_of.get(key)
        if known is None:
            role = "weights" if key[1] else "activations"
            memory = self.machine.cores[core].holding(role)
            known = self._memory_of[key] = self.tables.memory_number[memory.name]
        return known

    def hops(self, source: int, target: int) -> Ints:
        """The memories that a copy passes on its way, the last of them its target."""
        known = self._hops.get((source, target))
        if known is None:
            names = [memory.name for memory in self.machine.memories]
            a, b = names[source], names[target]
            if any(self.machine.routes(a, b)):
                known = (target,)
            else:
                path = self.machine.find_path(a, b) or ()
                known = tuple(self.tables.memory_number[route.destination] for _, route in path)
                if not known or self.main in known[:-1]:
                    raise LoweringError(f"machine {self.machine.name} has no link from {a} to {b}")
            self._hops[source, target] = known
        return known

    def dense(self, layout: Layout) -> int:
        """The same elements without gaps, in the order in which they lie."""
        axes = sorted(range(len(layout.shape)), key=lambda axis: -abs(layout.strides[axis]))
        steps = dense_strides(tuple(layout.shape[axis] for axis in axes), layout.item)
        strides = [0] * len(axes)
        for axis, step in zip(axes, steps, strict=True):
            strides[axis] = step
        return self.tables.layout(layout.shape, tuple(strides), layout.dtype, layout.item)

    def lying(self, name: str) -> Lying:
        """How a value lies in the main memory where no view says otherwise."""
        known = self._lying.get(name)
        if known is None:
            pack, shape, item = self.packs.get(name), self.graph.types[name].shape, self.item(name)
            root, offset = name, 0
            if pack is not None:
                root = pack.weights
                offset, strides = pack.place(name)
            elif name in self.graph.constants:
                strides = constant_strides(self.graph, name, item)
            else:
                strides = self.layouts.main_strides(name)
            layout = self.tables.layout(shape, strides, self._kinds[name], item)
            known = self._lying[name] = Lying(root, offset, layout, self.main)
        return known

    def view(self, lying: Lying, buffer: int = 0) -> View:
        """A value as it lies, as a view of a buffer."""
        layout = self.tables.layouts[lying.layout]
        return View(buffer, lying.offset, *layout)

    def root_bytes(self, root: str) -> int:
        """Bytes of a buffer of the main memory."""
        pack = self.packs.get(root)
        if pack is not None:
            return pack.bytes(pack.shape[pack.axis])
        layout = self.tables.layouts[self.lying(root).layout]
        if root in self.layouts.images and root not in self.graph.constants:
            return layout.shape[0] * layout.strides[0]
        reach = sum((n - 1) * s for n, s in zip(layout.shape, layout.strides, strict=True))
        return max(1, reach + layout.item)
