"""Any value that a person can write into a machine, plan or pattern file, and any damage to a model
or to the folder of a run, works or is one line that says what is wrong."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random, SystemRandom
from shutil import copytree, rmtree
from typing import Any

import pytest
import yaml

from support.mutated_models import mutate_run, mutated_model
from support.mutation import misspelt, mutated, mutated_machine
from support.networks import attention, residual
from support.soak import SOAK
from tilewright import api
from tilewright.api import load
from tilewright.errors import TilewrightError
from tilewright.frontend import zoo
from tilewright.frontend.save import serialize
from tilewright.frontend.weights import seeded
from tilewright.machine import load_machine
from tilewright.manycore.plan import CorePlan, plan_cores
from tilewright.manycore.workload import LOOPS
from tilewright.runs.folder import write_run
from tilewright.runs.saved import reseal

pytestmark = pytest.mark.soak
EACH = 200  # files in one test
TESTS = -(-SOAK // EACH) or 1
SECONDS = 60
MANYCORE = Path(__file__).parents[2] / "examples" / "manycore"
PLAN: Any = {
    "model": "four_convs",
    "machine": "npu-2.7",
    "dtype": "fp16",
    "groups": [
        {
            "nodes": ["conv1", "conv2"],
            "splits": [
                {"axis": 2, "parts": 3, "halo": "recompute"},
                {"axis": 3, "parts": 2, "halo": "cache"},
            ],
            "core_split": 0,
        },
        {"nodes": ["conv3"], "splits": [{"axis": 1, "parts": 2}], "replicated": False},
        {"nodes": ["conv4"], "place": "cores"},
    ],
    "resident": ["conv3"],
    "reloaded": {},
}
PATTERNS: Any = [
    {"name": "pair", "operators": ["Conv", "(Relu)", "Conv"], "action": "fuse"},
    {"name": "apart", "operators": ["Conv", "Add"], "action": "keep apart"},
]
Command = Callable[..., Any]


@contextmanager
def within(seconds: int, what: str) -> Iterator[None]:
    """Fails what takes longer, in CPU time."""

    def late(*_: Any) -> None:
        pytest.fail(f"more than {seconds} s: {what}")

    old = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A very small network."""
    path = tmp_path / "net.onnx"
    path.write_bytes(serialize(seeded(zoo.build("four_convs@12x12"))))
    return path


def seeds() -> range:
    """The same in every test; fresh ones in a soak."""
    first = SystemRandom().randrange(10**9) if SOAK else 0
    return range(first, first + EACH)


def judged(outcome: Any, case: str, least: int = 1) -> str:
    """What became of a plan: there is one, or one line that says why not."""
    if outcome.code == 0:
        assert least <= outcome.json["latency_cycles"] < 1 << 62, case
        return "planned"
    assert outcome.code == 2 and len(outcome.told) == 1, f"{case}\n{outcome.err}"
    return "not planned"


def tried(
    make: Callable[[Random], tuple[str | bytes, str]], file: Path, attempt: Callable[[str], str]
) -> Counter[str]:
    """How often each thing became of the files that are made, none of which may take long."""
    counts = Counter[str]()
    for seed in seeds():
        content, done = make(Random(seed))
        case = f"{make.__qualname__} of Random({seed}): {done}"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        with within(SECONDS, case):
            counts[attempt(case)] += 1
    return counts


@pytest.mark.parametrize("number", range(TESTS))
def test_a_mutated_machine(command: Command, model: Path, tmp_path: Path, number: int) -> None:
    file = tmp_path / "mine.yaml"

    def attempt(case: str) -> str:
        try:
            load_machine(file)
        except TilewrightError as error:
            assert str(file) in str(error) and "\n" not in str(error), case
            return "refused"
        search = "--fast" if SOAK and len(case) % 10 == 0 else "--layer-by-layer"
        return judged(command("plan", model, "--on", file, search, "--no-verify", "--json"), case)

    counts = tried(mutated_machine, file, attempt)
    assert counts["refused"] > 5 and counts["planned"] > 5, counts


@pytest.mark.parametrize("number", range(TESTS))
def test_a_mutated_plan(command: Command, model: Path, tmp_path: Path, number: int) -> None:
    file = tmp_path / "plan.yaml"
    arguments = ("--on", "npu-2.7", "--plan", file, "--no-verify", "--json")

    def a_plan(random: Random) -> tuple[str, str]:
        return mutated(PLAN, random)

    counts = tried(a_plan, file, lambda case: judged(command("plan", model, *arguments), case))
    assert counts["not planned"] > 5 and counts["planned"] > 5, counts


@pytest.mark.parametrize("number", range(TESTS))
def test_mutated_patterns(command: Command, model: Path, tmp_path: Path, number: int) -> None:
    file = tmp_path / "patterns.yaml"
    arguments = ("--on", "mcu", "--patterns", file, "--fast", "--no-verify", "--json")

    def patterns(random: Random) -> tuple[str, str]:
        return mutated(PATTERNS, random)

    def attempt(case: str) -> str:
        checked = command("check", file, "--json")
        assert checked.code == (0 if checked.json["files"][0]["ok"] else 2), case
        return judged(command("plan", model, *arguments), case) if not checked.code else "refused"

    counts = tried(patterns, file, attempt)
    assert counts["refused"] > 5 and counts["planned"] > 5, counts


@pytest.mark.parametrize("number", range(TESTS))
def test_a_mutated_model(command: Command, model: Path, tmp_path: Path, number: int) -> None:
    """Loaded, planned, executed and compared; other numbers than the original's are no answer."""
    file = tmp_path / "mutated.onnx"
    sound = [model.read_bytes(), *(serialize(seeded(g())) for g in (attention, residual))]

    def a_model(random: Random) -> tuple[bytes, str]:
        return mutated_model(random.choice(sound), random)

    def attempt(case: str) -> str:
        outcome = command("plan", file, "--on", "mcu", "--layer-by-layer", "--json")
        return judged(outcome, case, least=0)

    counts = tried(a_model, file, attempt)
    assert counts["not planned"] > 5 and counts["planned"] > 5, counts


def costs_text(plan: CorePlan) -> str:
    """The costs of a plan's tiles as a file of another tool would have them."""
    rows = [",".join(("core", *LOOPS, "cycles", "energy_pj"))]
    costs = plan.evaluator.costs
    for row, shape in enumerate(plan.tiles.shapes):
        for column, (number, _) in enumerate(plan.fabric.cores):
            found = (costs.cycles[row, column], costs.energy[row, column])
            rows.append(",".join(map(str, (number, *shape.extents, *found))))
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("number", range(TESTS))
def test_mutated_files_of_many_cores(command: Command, tmp_path: Path, number: int) -> None:
    """Accelerator, cores, mappings of both dialects, costs and network of the example."""
    folder = tmp_path / "files"
    copytree(MANYCORE, folder)
    hardware, model, costs = (folder / n for n in ("three_cores.yaml", "net.onnx", "costs.csv"))
    model.write_bytes(serialize(seeded(zoo.build("four_convs@12x12"))))
    plan = plan_cores("", load(str(model)).graph, hardware, folder / "fused.yaml")
    costs.write_text(costs_text(plan))
    mappings = [folder / f"{name}.yaml" for name in ("fused", "newer", "open", "split")]
    sound = {file: file.read_bytes() for file in (*folder.rglob("*.*"),)}
    counts = Counter[str]()
    for seed in seeds():
        random = Random(seed)
        file = random.choice(sorted(sound))
        if file == model:
            content, done = mutated_model(sound[file], random)
        elif file == costs:
            content, done = misspelt(sound[file].decode(), random)
        else:
            content, done = mutated(yaml.safe_load(sound[file]), random)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        mapping = file if file in mappings else random.choice(mappings)
        given = ("--core-costs", costs) if file == costs else ()
        case = f"Random({seed}) of {file.name}: {done}"
        with within(SECONDS, case):
            arguments = (model, "--on", hardware, "--mapping", mapping, *given, "--fast", "--json")
            outcome = command("plan", *arguments)
            counts[judged(outcome, case)] += 1
        if outcome.code and file != model:
            assert str(folder) in outcome.err, f"{case}\n{outcome.err}"
        file.write_bytes(sound[file])
    assert counts["not planned"] > 5 and counts["planned"] > 5, counts


@pytest.mark.parametrize("number", range(TESTS))
def test_a_mutated_run(command: Command, tmp_path: Path, number: int) -> None:
    """Noticed as a change; and by `verify`, where the seal was renewed over it, as what it is."""
    sound = tmp_path / "sound"
    write_run(
        api.plan(load("four_convs@12x12"), load_machine("mcu"), layer_by_layer=True).planned, sound
    )
    counts = Counter[str]()
    for seed in seeds():
        random = Random(seed)
        folder = tmp_path / "run"
        copytree(sound, folder)
        case = f"Random({seed}): {mutate_run(folder, random)}"
        with within(SECONDS, case):
            job = random.choice((["verify"], ["explain"], ["compare", sound]))
            if random.random() < 0.5:
                with suppress(TilewrightError, OSError):
                    reseal(folder)
            outcome = command(*job, folder)
        counts[job[0], outcome.code] += 1
        if outcome.code:
            assert outcome.code == 2 and len(outcome.told) == 1, f"{case}\n{outcome.err}"
        rmtree(folder)
    assert counts["verify", 2] > 5 and counts["explain", 2] > 5, counts
    # A comparison reads two files of a run: among fresh seeds few may hit them.
    assert counts["compare", 2] > (0 if SOAK else 5), counts
