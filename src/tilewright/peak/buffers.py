"""Buffers: which values share memory, and when each buffer comes and goes."""

from collections import Counter
from itertools import chain

from tilewright.peak.kernels import RuntimeKernel, is_alias, takes_over
from tilewright.peak.network import RuntimeNetwork

PAGE = 4096
LINE = 64  # blocks begin at multiples of it, and the runtime rounds their sizes up to it
MARGIN = 136  # what malloc asks for beside a block that begins at one
RECORD = 400  # what the runtime keeps about a tensor in memory, measured
HOLES = 2  # times its bytes that a tensor of less than a page takes of the heap, measured
SLOT = 24  # and about a value of the network, constants included, whether it is in memory or not
UNCOUNTED = -1  # the buffer of everything the caller or the session owns


def block_bytes(size: int) -> int:
    """What a block of so many bytes takes: pages of its own, unless it is less than one."""
    size = -(-size // LINE) * LINE
    return size if size + MARGIN <= PAGE else -(-(size + MARGIN) // PAGE) * PAGE


def buffer_bytes(size: int) -> int:
    """What a tensor of so many bytes takes."""
    return block_bytes(size) + RECORD


class Buffers:
    """The memory of a run, launch by launch. Inputs of the network and constants do not count.
    Blocks of less than a page lie on a heap, which keeps the pages it once had; blocks of other
    sizes do not fit where they were, so that half of it are holes between tiles.

    A buffer is a number; the lists below hold its facts. They are lists and not objects because
    the search walks millions of buffers.
    """

    def __init__(self, network: RuntimeNetwork, kernels: list[RuntimeKernel]) -> None:
        self.types = network.types
        self.outputs = network.outputs
        self.bookkeeping = network.runtime.bookkeeping
        self._mapped, self._small, self._heap = 0, 0, 0
        if self.bookkeeping and kernels:
            self._mapped = block_bytes(SLOT * network.values)
        # Reads of each value to come; being an output of the network is one that never comes.
        self.uses = Counter(chain.from_iterable(kernel.inputs for kernel in kernels))
        self.uses.update(network.outputs)
        self.of: dict[str, int] = dict.fromkeys(network.graph.inputs, UNCOUNTED)
        self.of.update(dict.fromkeys(network.constants, UNCOUNTED))
        self.names: list[str] = []
        self.bytes: list[int] = []
        self.reads: list[int] = []  # to come, through any of the names that share the buffer
        self.born: list[int] = []
        self.died: list[int | None] = []

    def make(self, kernel: RuntimeKernel, position: int) -> None:
        """A kernel is launched: its outputs need memory."""
        for slot, name in enumerate(kernel.outputs):
            if not name:
                continue
            shared = self._shared(kernel) if slot == 0 and name not in self.outputs else None
            if shared is None:
                self._allocate(name, position)
                continue
            self.of[name] = shared
            if shared != UNCOUNTED:
                self.reads[shared] += self.uses[name]

    def _shared(self, kernel: RuntimeKernel) -> int | None:
        """The buffer that the first output takes over from an input, None if it needs its own."""
        slot = takes_over(kernel)
        buffer = None if slot is None else self.of.get(kernel.input(slot))
        if slot is None or buffer is None or is_alias(kernel):
            return buffer
        if buffer == UNCOUNTED or self.reads[buffer] != 1:
            return None
        kind = self.types.get(kernel.inputs[slot])
        return buffer if kind is not None and kind == self.types.get(kernel.outputs[0]) else None

    def _allocate(self, name: str, position: int) -> None:
        kind = self.types.get(name)
        size = 0 if kind is None else kind.bytes
        if kind is not None and self.bookkeeping:
            size = buffer_bytes(size)
        self.of[name] = len(self.names)
        self.names.append(name)
        self.bytes.append(size)
        self.reads.append(self.uses[name])
        self.born.append(position)
        self.died.append(None)
        self._count(size)

    def level(self, scratch: tuple[int, ...]) -> int:
        """Bytes in use, with what the heap once grew to, while a kernel has blocks of its own."""
        if not self.bookkeeping:
            return self._mapped + sum(scratch)
        blocks = [block_bytes(size) for size in scratch]
        own = sum(size for size in blocks if size >= PAGE)
        self._heap = max(self._heap, self._small + HOLES * (sum(blocks) - own))
        return self._mapped + own + self._heap

    def _count(self, size: int, sign: int = 1) -> None:
        """A buffer comes, or goes."""
        if not self.bookkeeping or not size:  # of unknown size
            self._mapped += sign * size
            return
        if size >= PAGE + RECORD:
            self._mapped += sign * (size - RECORD)
            size = RECORD
        self._small += sign * (RECORD + HOLES * (size - RECORD))
        self._heap = max(self._heap, self._small)

    def release(self, kernel: RuntimeKernel, position: int) -> None:
        """The kernel is done: what nothing reads any more goes."""
        for name in kernel.inputs:
            buffer = self.of.get(name, UNCOUNTED)
            if buffer != UNCOUNTED:
                self.reads[buffer] -= 1
                if not self.reads[buffer]:
                    self._free(buffer, position)
        for name in kernel.outputs:
            buffer = self.of.get(name, UNCOUNTED)
            if buffer != UNCOUNTED and not self.reads[buffer]:
                self._free(buffer, position)

    def _free(self, buffer: int, position: int) -> None:
        if self.died[buffer] is None:
            self.died[buffer] = position
            self._count(self.bytes[buffer], -1)

    def at(self, position: int) -> list[tuple[str, int]]:
        """Names and bytes of what is in memory at a launch, largest first."""
        found = [
            (name, size)
            for name, size, born, died in zip(
                self.names, self.bytes, self.born, self.died, strict=True
            )
            if size and born <= position and (died is None or position <= died)
        ]
        return sorted(found, key=lambda item: -item[1])
