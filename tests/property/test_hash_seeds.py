"""Plans are equal to the byte whatever PYTHONHASHSEED is: no order of a set decides anything."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
HASH_SEEDS = ("0", "1", "2", "3")
NETWORKS = ("0", "5")


def test_searches_find_the_same_plan_for_every_hash_seed() -> None:
    said: dict[str, str] = {}
    for seed in HASH_SEEDS:
        done = subprocess.run(
            [sys.executable, "-m", "support.searches", *NETWORKS],
            cwd=TESTS,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        said[seed] = done.stdout
    assert said["0"].count("groups:") == len(NETWORKS)
    assert all(text == said["0"] for text in said.values())
