"""A run's report as a PNG, for the README: what Chromium shows of report.html.

    python bench/report_picture.py RUN_DIR|report.html OUT.png [--width 1366] [--height 1700]
        [--group 3] [--scale 1]

Needs Chromium on the path, or its name in $CHROMIUM.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60  # seconds


def main() -> None:
    """Render one report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="a run's folder, or its report.html")
    parser.add_argument("out", type=Path, help="the PNG to write")
    parser.add_argument("--width", type=int, default=1366)
    parser.add_argument("--height", type=int, default=1700)
    parser.add_argument("--group", type=int, help="the group to select")
    parser.add_argument("--scale", type=float, default=1.0, help="device pixels per pixel")
    given = parser.parse_args()
    path = given.report / "report.html" if given.report.is_dir() else given.report
    if not path.is_file():
        raise SystemExit(f"there is no '{path}'")
    fragment = "" if given.group is None else f"#group={given.group}"
    size = f"{given.width},{given.height}"
    picture(path.absolute().as_uri() + fragment, given.out, size, given.scale)
    print(f"{given.out}: {given.out.stat().st_size / 1000:.0f} kB")


def picture(address: str, out: Path, size: str, scale: float) -> None:
    """Let Chromium paint a page of a size like `1366,1700`."""
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise SystemExit("no Chromium: apt-get install chromium, or name one in $CHROMIUM")
    out.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as home:
        command = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={home}",
            f"--window-size={size}",
            f"--force-device-scale-factor={scale}",
            f"--screenshot={out.absolute()}",
            address,
        ]
        done = subprocess.run(command, check=False, capture_output=True, timeout=PATIENCE)
    if not out.is_file():
        raise SystemExit(f"Chromium wrote no picture:\n{done.stderr.decode(errors='replace')}")


if __name__ == "__main__":
    main()
