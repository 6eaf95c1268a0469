"""Why a torch network could not be captured, in one line with the user's own line."""

import re
import traceback

_ADVICE = (
    (
        ("data-dependent", "datadependent", "guardondatadependent", "control flow"),
        "its control flow depends on the data",
    ),
    (
        ("symbolically traced variables cannot be used", "traceerror"),
        "its control flow depends on the data",
    ),
    (("mat1 and mat2 shapes", "shapes cannot be multiplied"), "the input has the wrong shape"),
    (("expected input", "to have", "channels"), "the input has the wrong shape"),
)
_LONGEST = 300
_SHORT = 160  # so many characters of whole sentences are told


def why_not(how: str, error: BaseException, at: str = "") -> str:
    """One line: what failed, where in the user's code, and torch's own words."""
    words = " ".join(str(error).split()) or type(error).__name__
    own = re.split(r"User Stack|Caused by|The above exception|from user code", words)[0]
    first, *more = re.split(r"(?<=\.) ", own)
    for sentence in more:
        if len(first) + len(sentence) > _SHORT:
            break
        first = f"{first} {sentence}"
    first = first.rstrip(". ")
    kinds = f"{type(error).__name__} {words}".lower()
    told = next((text for keys, text in _ADVICE if any(k in kinds for k in keys)), "")
    place = _place(error)
    parts = [f"{how} cannot follow this module"]
    if told:
        parts.append(told)
    if at:
        parts.append(f"at '{at}'")
    if place:
        parts.append(place)
    return f"{', '.join(parts)}: {first[:_LONGEST]}"


def _place(error: BaseException) -> str:
    """The last line of the trace that is not torch's or Tilewright's own."""
    found = ""
    seen: BaseException | None = error
    while seen is not None and not found:
        for frame in traceback.extract_tb(seen.__traceback__):
            inside = re.search(r"[/\\](torch|tilewright|importlib)[/\\]", frame.filename)
            if not inside and not frame.filename.startswith("<"):
                found = f"{frame.filename}:{frame.lineno}"
        seen = seen.__cause__ or seen.__context__
    return found
