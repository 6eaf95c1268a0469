"""Element types as rates know them: uint8 runs at the rate of int8, however it is spelled."""

from functools import lru_cache

from tilewright.errors import TilewrightError

_FP8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
_CLASSES = {
    "int2": ("uint2", "i2", "u2"),
    "int4": ("uint4", "i4", "u4", "float4_e2m1fn", "fp4"),
    "int8": ("uint8", "i8", "u8", "bool", *_FP8, "fp8"),
    "int16": ("int16", "uint16"),
    "int32": ("int32", "uint32"),
    "fp16": ("float16", "f16", "half"),
    "bf16": ("bfloat16",),
    "fp32": ("float32", "f32", "float"),
    "fp64": ("float64", "int64", "uint64"),
}
_CLASS_OF = {name: kind for kind, names in _CLASSES.items() for name in (kind, *names)}
_BITS = {kind: int(kind.strip("intbfp")) for kind in _CLASSES}
RATE_CLASSES = tuple(_BITS)
_FLOATS = frozenset({"fp16", "bf16", "fp32", "fp64"})


def rate_class(dtype: str) -> str:
    """The class whose rates an element type runs at: `uint8` and `u8` are `int8`."""
    found = _CLASS_OF.get(str(dtype).lower())  # callers from outside give anything
    if found is None:
        raise TilewrightError(f"no machine computes with elements of type '{dtype}'")
    return found


def element_bits(dtype: str) -> int:
    """Bits of one element."""
    return _BITS[rate_class(dtype)]


@lru_cache(maxsize=1024)
def element_bytes(dtype: str) -> float:
    """Bytes of one element; half a byte for 4-bit types."""
    return element_bits(dtype) / 8


@lru_cache(maxsize=1024)
def runs_as(dtype: str, offered: tuple[str, ...]) -> str | None:
    """The offered class an element type can be computed in: itself, else the narrowest that holds
    it; None where none does. Floats need wider floats, integers anything as wide."""
    wanted = rate_class(dtype)
    if wanted in offered:
        return wanted
    holding = [kind for kind in offered if _BITS[kind] >= _BITS[wanted]]
    if wanted in _FLOATS:
        holding = [kind for kind in holding if kind in _FLOATS and _BITS[kind] > _BITS[wanted]]
    return min(holding, key=lambda kind: (_BITS[kind], kind), default=None)


@lru_cache(maxsize=1024)
def nearest_class(dtype: str, offered: tuple[str, ...]) -> str:
    """The offered class an element type runs as: itself, else the narrowest that holds it, else
    the widest there is."""
    wanted = rate_class(dtype)
    if wanted in offered:
        return wanted
    ranked = sorted(offered, key=lambda kind: (_BITS[kind], kind))
    wide_enough = [kind for kind in ranked if _BITS[kind] >= _BITS[wanted]]
    return (wide_enough or ranked[-1:])[0]
