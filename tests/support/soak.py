"""Whether this is `make soak`: fresh examples, and many more of them."""

import os

SOAK = int(os.environ.get("TILEWRIGHT_SOAK") or 0)  # mutated files of each kind; 0: `make test`
