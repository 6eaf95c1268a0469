"""Networks that need no file, by name: `resnet50`, `fsrcnn@1080x1920`, `bert_base@384`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.errors import ModelError
from tilewright.frontend.zoo.classifiers import mobilenet_v2, resnet18, resnet50, vgg16
from tilewright.frontend.zoo.images import four_convs, fsrcnn, rn50_stem, unet
from tilewright.frontend.zoo.transformers import bert_base, sd15_down_block, vit_b16
from tilewright.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """A network of the zoo. Its size is HxW of the input, or the length of a sequence; each
    extent is a multiple of `step` from `smallest` on, up to `largest` if there is a limit."""

    description: str
    size: tuple[int, ...]
    function: Callable[..., Graph]
    smallest: int = 1
    step: int = 1
    largest: int | None = None


MODELS: Mapping[str, ZooEntry] = {
    "resnet18": ZooEntry("ResNet-18, image classifier", (224, 224), resnet18, 32),
    "resnet50": ZooEntry("ResNet-50 v1.5, image classifier", (224, 224), resnet50, 32),
    "mobilenet_v2": ZooEntry("MobileNet-V2, small image classifier", (224, 224), mobilenet_v2, 32),
    "vgg16": ZooEntry("VGG-16, image classifier", (224, 224), vgg16, 224),
    "fsrcnn": ZooEntry("FSRCNN x2, super-resolution", (540, 960), fsrcnn),
    "unet": ZooEntry("U-Net, segmentation with long skips", (256, 256), unet, 16, 16),
    "vit_b16": ZooEntry("ViT-B/16, transformer on patches", (224, 224), vit_b16, 16, 16),
    "bert_base": ZooEntry("BERT base, text encoder", (128,), bert_base, largest=512),
    "sd15_down_block": ZooEntry(
        "Stable Diffusion 1.5, first down block", (64, 64), sd15_down_block, 2, 2
    ),
    "four_convs": ZooEntry("four 3x3 convolutions in a row", (56, 56), four_convs),
    "rn50_stem": ZooEntry("ResNet-50 stem with pads 2/2/3/3", (224, 224), rn50_stem, 8),
}


_NUMBER = re.compile("[0-9]{1,9}")


def is_zoo_name(text: str) -> bool:
    """Whether the text names a network of the zoo, with a size or without."""
    return text.partition("@")[0] in MODELS


def build(text: str) -> Graph:
    """The network a user names: `resnet50`, `resnet50@512x512`, `bert_base@384`."""
    name, separator, size = text.partition("@")
    entry = MODELS.get(name)
    if entry is None:
        raise ModelError(f"no network is called '{name}'; there are: {', '.join(MODELS)}")
    return entry.function(*(_size(name, entry, size) if separator else entry.size))


def _size(name: str, entry: ZooEntry, text: str) -> tuple[int, ...]:
    parts = text.split("x")
    if len(parts) == len(entry.size) and all(map(_NUMBER.fullmatch, parts)):
        size = tuple(int(part) for part in parts)
        most = max(size) if entry.largest is None else entry.largest
        if all(entry.smallest <= n <= most and n % entry.step == 0 for n in size):
            return size
    form = "HxW" if len(entry.size) == 2 else "the length"
    usual = "x".join(map(str, entry.size))
    limits = f"at least {entry.smallest}"
    limits += f", at most {entry.largest}" if entry.largest else ""
    limits += f", multiples of {entry.step}" if entry.step > 1 else ""
    raise ModelError(
        f"'{name}@{text}' has no valid size: give {form}, {limits}, e.g. {name}@{usual}"
    )
