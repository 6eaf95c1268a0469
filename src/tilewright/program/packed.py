"""Loads of weights and bias by one copy, where both lie together."""

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.program.constants import Pack, channels_of
from tilewright.program.held import HeldTransfers, Leg, Storage
from tilewright.program.tile_tables import TileSpot


class PackedLoad(NamedTuple):
    """A load of some channels: its bytes, where it begins, how both ends lie, and the links."""

    size: int
    start: int
    layout: int
    legs: tuple[Leg, ...]


class PackedPart(NamedTuple):
    """One of both constants: its operand, first byte, and how it lies on the core."""

    operand: int
    offset: int
    storage: Storage


class PackedLoads:
    """Weights and bias of an operator, on one core: `weights` and `bias` are how each lies there,
    `memory` is the one they go to."""

    def __init__(
        self, transfers: HeldTransfers, inputs: Sequence[str], pack: Pack, core: int
    ) -> None:
        self.transfers, self.pack, context = transfers, pack, transfers.context
        self.memory = context.memory_of(core, pack.weights)
        step = (pack.row * pack.item, pack.item)
        self.source = Storage(context, pack.weights, step, context.main)
        self.weights, self.bias = (
            PackedPart(inputs.index(name), offset, Storage(context, name, strides, self.memory))
            for name in (pack.weights, pack.bias)
            for offset, strides in (pack.place(name),)
        )
        self._known: dict[tuple[TileSpot, TileSpot], PackedLoad | None] = {}

    def load(self, weights: TileSpot, bias: TileSpot) -> PackedLoad | None:
        """The load of these regions of both, None where they are anything but whole rows."""
        try:
            return self._known[weights, bias]
        except KeyError:
            load = self._known[weights, bias] = self._new(weights, bias)
            return load

    def _new(self, weights: TileSpot, bias: TileSpot) -> PackedLoad | None:
        pack, source = self.pack, self.source
        channels = channels_of(pack, weights[:2], bias[:2])
        if channels is None:
            return None
        first, count = channels
        layout = source.layout((count, pack.row))
        legs = self.transfers.legs(pack.weights, source.memory, self.memory, layout, layout)
        return PackedLoad(pack.bytes(count), first * source.strides[0], layout, legs)
