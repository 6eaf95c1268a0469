"""Files with a fault: what is said of them."""

from collections.abc import Callable
from pathlib import Path

import pytest


def assert_refused(
    read: Callable[[Path], object], error: type[Exception], path: Path, text: str, says: str
) -> None:
    """Reading a file with this text tells its fault, and which file it is."""
    path.write_text(text)
    with pytest.raises(error) as raised:
        read(path)
    assert says in str(raised.value)
    assert str(path) in str(raised.value)
