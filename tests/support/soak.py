"""Whether this is `make soak`: fresh examples, and many more of them."""

import os

SOAK = bool(os.environ.get("TILEWRIGHT_SOAK"))
