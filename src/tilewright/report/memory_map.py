"""memory.png: every buffer of every memory as a rectangle, addresses over time.

Pillow draws it: what draws charts takes longer to load than a small network to plan.
"""

from math import floor, log10
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from tilewright.errors import OutputError
from tilewright.machine.machine import Memory
from tilewright.planning import Planned
from tilewright.program.place import Placed
from tilewright.program.program import Buffer
from tilewright.report.html.columns import Lifetime, lifetimes
from tilewright.report.verified import titled
from tilewright.units import format_bytes

_MOST_MEMORIES = 9  # of a machine with many cores, the first ones
_NEAR = 3  # times the peak: a capacity up to there is drawn to scale
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 1600, 88, 24, 85, 55  # pixels
_ROW, _BETWEEN = 375, 58
_TICKS = 10  # at most, along an axis
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # between ticks, times a power of ten
_PALE = 0.85  # of a group's colour; the rest is white
_LIMIT = "#dc143c"
# Twenty colours that neighbours differ in, strong and light ones in turns.
_COLOURS = (
    *("#1f77b4", "#aec7e8", "#ff7f0e", "#ffbb78", "#2ca02c", "#98df8a", "#d62728", "#ff9896"),
    *("#9467bd", "#c5b0d5", "#8c564b", "#c49c94", "#e377c2", "#f7b6d2", "#7f7f7f", "#c7c7c7"),
    *("#bcbd22", "#dbdb8d", "#17becf", "#9edae5"),
)


def plot_memory_map(planned: Planned, path: Path) -> None:
    """Addresses over time, a row for every memory, as a PNG."""
    picture = _Map(planned).drawn()
    try:
        picture.save(path, compress_level=3)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write '{path}': {error}") from None


class _Frame(NamedTuple):
    """The rectangle of a row, and what its axes span."""

    top: int
    width: float
    height: float

    def x(self, value: float) -> float:
        """Pixels from the left."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / self.width

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return self.top + _ROW * (1 - value / self.height)


def memory_words(placed: Placed, memory: Memory) -> str:
    """What stands above a memory's row."""
    peak, highest = (dict(rows)[memory.name] for rows in (placed.most_live, placed.highest))
    return (
        f"{memory.name}: peak {format_bytes(peak)} of {format_bytes(memory.usable)} usable, "
        f"highest address {format_bytes(highest)}"
    )


class _Map:
    """A picture in the making."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        placed, machine = planned.placed, planned.machine
        self.highest, self.lives = dict(placed.highest), lifetimes(placed)
        self.memories = [machine.memory(name) for name in self.highest][:_MOST_MEMORIES]
        self.cycles = max(1, placed.schedule.makespan)
        self.to_ms = machine.seconds(1) * 1e3
        rows = len(self.memories)
        self.height = _TOP + rows * _ROW + (rows - 1) * _BETWEEN + _BOTTOM
        self.image = Image.new("RGB", (_WIDTH, self.height), "white")
        self.draw = ImageDraw.Draw(self.image)
        self.small, self.plain, self.large, self.huge = map(
            ImageFont.load_default, (11, 13, 16, 19)
        )

    def drawn(self) -> Image.Image:
        """All rows, with titles."""
        title = f"{titled(self.planned)}: buffers in memory over time"
        self.draw.text((_WIDTH / 2, 30), title, "black", self.huge, "mm")
        for row, memory in enumerate(self.memories):
            self._row(_TOP + row * (_ROW + _BETWEEN), memory, row == len(self.memories) - 1)
        words = "time, ms; one colour per group of the plan"
        self.draw.text((_WIDTH / 2, self.height - 16), words, "black", self.plain, "mm")
        return self.image

    def _row(self, top: int, memory: Memory, last: bool) -> None:
        """One memory: its axes, its buffers, and what it has."""
        last_byte, draw, placed = self.highest[memory.name], self.draw, self.planned.placed
        scale, unit = (1e6, "MB") if last_byte >= 1e6 else (1e3, "kB")
        highest, limit = max(1, last_byte) / scale, memory.usable / scale
        near = limit <= _NEAR * highest
        room = max(highest, limit) * 1.06 if near else highest * 1.12
        frame = _Frame(top, self.cycles * self.to_ms, room)
        self._axes(frame, unit, last)
        for number, life in self.lives.items():
            if placed.program.buffers[number].memory == memory.name:
                buffer, address = placed.program.buffers[number], placed.address[number]
                self._box(frame, buffer, address, life, scale)
        line = round(frame.y(limit if near else room * 0.985))
        dash = _WIDTH if near else 2
        for x in range(_LEFT, _WIDTH - _RIGHT, 2 * dash):
            draw.line((x, line, min(x + dash, _WIDTH - _RIGHT), line), _LIMIT, 2)
        draw.rectangle((_LEFT, top, _WIDTH - _RIGHT, top + _ROW), outline="black")
        words = memory_words(placed, memory)
        words += "; red line: usable" if near else "; dotted red line: usable, far above"
        draw.text((_LEFT, top - 8), words, "black", self.large, "ls")

    def _axes(self, frame: _Frame, unit: str, last: bool) -> None:
        """Grid and ticks; the last row's have times."""
        draw, bottom = self.draw, frame.top + _ROW
        for value, text in _ticks(frame.width):
            x = frame.x(value)
            draw.line((x, frame.top, x, bottom), "#ebebeb")
            draw.line((x, bottom, x, bottom + 5), "black")
            if last:
                draw.text((x, bottom + 8), text, "black", self.plain, "ma")
        for value, text in _ticks(frame.height):
            y = frame.y(value)
            draw.line((_LEFT, y, _WIDTH - _RIGHT, y), "#ebebeb")
            draw.line((_LEFT - 5, y, _LEFT, y), "black")
            draw.text((_LEFT - 9, y), text, "black", self.plain, "rm")
        words = f"address, {unit}"
        label = Image.new("L", (round(draw.textlength(words, self.plain)), 18))
        ImageDraw.Draw(label).text((0, 2), words, 255, self.plain)
        turned = label.rotate(90, expand=True)
        place = (22, frame.top + (_ROW - turned.height) // 2)
        self.image.paste("black", place, turned)

    def _box(
        self, frame: _Frame, buffer: Buffer, address: int, life: Lifetime, scale: float
    ) -> None:
        """A buffer, with its name where there is room for it."""
        left, right = (frame.x(cycle * self.to_ms) for cycle in (life.start, life.end))
        low, high = (frame.y(byte / scale) for byte in (address, address + buffer.size))
        right, low = max(left + 1, right), max(high + 1, low)
        group, name = _COLOURS[max(0, life.group) % len(_COLOURS)], buffer.value or buffer.name
        edge = _mixed(group, 0.45, "#000000") if min(right - left, low - high) > 2 else None
        self.draw.rectangle((left, high, right, low), _mixed(group, _PALE, "#ffffff"), edge)
        if low - high > 16 and self.draw.textlength(name, self.small) < right - left - 8:
            middle = ((left + right) / 2, (high + low) / 2)
            self.draw.text(middle, name, "black", self.small, "mm")


def _mixed(colour: str, share: float, other: str) -> tuple[int, int, int]:
    """So much of a colour, the rest of another."""
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True)
    red, green, blue = (round(share * a + (1 - share) * b) for a, b in pairs)
    return red, green, blue


def _ticks(span: float) -> list[tuple[float, str]]:
    """Round numbers from 0 to `span`, with their text."""
    power = 10.0 ** floor(log10(span / _TICKS))
    step = next(power * each for each in _STEPS if span / (power * each) <= _TICKS)
    digits = next(d for d in range(20) if abs(round(step, d) - step) < 1e-9 * step)
    return [(n * step, f"{n * step:.{digits}f}") for n in range(floor(span / step) + 1)]
