"""Real memory and CPU time of shrunk networks, original and tiled side by side in one run.

python bench/shrink.py [--json PATH] [--runs N]
"""

import argparse
import tempfile
from pathlib import Path

from common import write_json

from tilewright import api
from tilewright.report.shrunk import shrunk_json
from tilewright.shrinking import parse_budget

# Network, budget, and what is asked of it: share of the original's peak, CPU ratio.
CASES = (
    ("fsrcnn@1080x1920", "8%", 1 / 12, 1.25),
    ("fsrcnn@1080x1920", "16%", 1 / 6, 1.10),
    ("mobilenet_v2@1024x1024", "24%", 1 / 4, 1.20),
    ("unet@512x512", "60%", 2 / 3, None),
)


def main() -> None:
    """Measure every case and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each model")
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    print(
        f"{'network':24} {'budget':>6} {'before':>9} {'after':>9} {'share':>7} {'asked':>7}"
        f" {'cpu':>6} {'asked':>6} {'predicted':>10}"
    )
    for name, budget, share_asked, cpu_asked in CASES:
        with tempfile.TemporaryDirectory() as folder:
            result = api.shrink(
                api.load(name),
                parse_budget(budget),
                Path(folder) / "small.onnx",
                measure=True,
                runs=arguments.runs,
            )
        facts = shrunk_json(result)
        measured = result.measured
        assert measured is not None
        share = measured.peak_bytes / measured.original_peak_bytes
        error = result.shrunk.predicted.peak / measured.peak_bytes - 1
        rows.append({"network": name, "budget": budget, **facts})
        print(
            f"{name:24} {budget:>6} {measured.original_peak_bytes / 1e6:6.1f} MB"
            f" {measured.peak_bytes / 1e6:6.1f} MB {share:7.3f} {share_asked:7.3f}"
            f" {measured.cpu_ratio:6.2f} {cpu_asked or 0:6.2f} {error:+9.1%}"
        )
    write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
