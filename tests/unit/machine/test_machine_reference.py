"""What is written about machine files: keys from the schema, examples that load, a schema that
editors can use."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from support.golden import check_golden
from tilewright.graph.ops import SPECS
from tilewright.machine import list_machines, load_machine
from tilewright.machine.load import machine_tree
from tilewright.machine.ranges import OPERATOR_CLASSES
from tilewright.machine.reference import editor_schema, reference_page

pytestmark = pytest.mark.quick
ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "machines").glob("*.yaml"))
PAGE = (ROOT / "docs" / "machine-files.md").read_text()
CHECKER: Any = jsonschema.Draft202012Validator(editor_schema())


@pytest.mark.golden
def test_the_page_of_keys_is_the_schema() -> None:
    check_golden(ROOT / "docs" / "machine-keys.md", reference_page())


def test_every_key_says_what_it_is() -> None:
    rows = [line.split(" | ") for line in reference_page().splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert all(row[1].strip() for row in rows), [row[0] for row in rows if not row[1].strip()]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_load_and_stand_on_the_page(path: Path) -> None:
    assert f"```yaml\n{path.read_text()}```" in PAGE
    assert load_machine(path).cores


def test_the_examples_show_what_they_say() -> None:
    machines = {path.stem[2:]: load_machine(path) for path in EXAMPLES}
    small = machines["minimal"]
    assert (len(small.cores), small.limits.kernel, small.energy.mac_pj) == (1, None, ())
    assert len(machines["second-core"].cores) == 2
    hops = machines["l2"].path("dram", "core1.sram")
    assert [route.destination for _, route in hops] == ["l2", "core1.sram"]
    assert machines["limits"].limits.channel_alignment == 16
    assert dict(machines["energy"].energy.mac_pj)["int8"] > 0
    assert machines["roles"].cores[0].holding("weights").name == "core0.weights"


def test_every_operator_class_that_is_costed_is_known() -> None:
    assert {spec.vector_class for spec in SPECS.values()} <= set(OPERATOR_CLASSES)


@pytest.mark.parametrize("name", list_machines())
def test_the_editor_schema_takes_what_loads(name: str) -> None:
    CHECKER.validate(machine_tree(name))
    CHECKER.validate({"extends": name, "cores": None, "limits": {"kernel": 3}})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_editor_schema_takes_the_examples(path: Path) -> None:
    CHECKER.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("clock",), 3),
        (("colour",), "red"),
        (("cores", "core", "count"), 0),
        (("cores", "core", "count"), 10**20),
        (("cores", "a.b"), {}),
        (("cores", "core", "memories", "sram", "roles"), ["tea"]),
        (("cores", "core", "engines", "cpu", "parameters", "rates", "soft"), {"per_element": 1}),
        (("limits", "kernel"), "x"),
        (("links", "dma", "routes"), {}),
    ],
)
def test_the_editor_schema_refuses_what_does_not_load(keys: tuple[str, ...], value: object) -> None:
    tree = deepcopy(machine_tree("mcu"))
    assert CHECKER.is_valid(tree)
    place = tree
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    assert not CHECKER.is_valid(tree)
