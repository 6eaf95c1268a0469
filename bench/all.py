"""Every bench, one after the other; results as JSON in bench/results.

python bench/all.py [NAME ...]
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = (
    "loading",
    "shrink",
    "peak_accuracy",
    "array_cost",
    "allocation",
    "simulator",
    "evaluation",
    "fusion",
    "kernel",
    "stream",
    "sweep",
    "partition",
)


def main() -> None:
    """Run the named benches, or all."""
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    for name in sys.argv[1:] or SCRIPTS:
        print(f"== {name}", flush=True)
        command = [
            sys.executable,
            str(HERE / f"{name}.py"),
            "--json",
            str(results / f"{name}.json"),
        ]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(f"bench {name} failed")


if __name__ == "__main__":
    main()
