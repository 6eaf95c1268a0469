"""Networks in PyTorch, written out: what the torch front end is tried on.

Widths and structure are those of the published networks; where a block only repeats, fewer of it.
"""

import torch
from torch import nn
from torch.nn import functional

Inputs = tuple[torch.Tensor, ...]


class Residual(nn.Module):
    """A basic or bottleneck block of a ResNet."""

    def __init__(
        self, inner: int, width: int, stride: int, groups: int, *, bottleneck: bool
    ) -> None:
        super().__init__()
        out = width * 4 if bottleneck else width
        middle = width * 2 if groups > 1 else width
        self.bottleneck = bottleneck
        if bottleneck:
            self.conv1 = nn.Conv2d(inner, middle, 1, bias=False)
            self.conv2 = nn.Conv2d(middle, middle, 3, stride, 1, groups=groups, bias=False)
            self.conv3 = nn.Conv2d(middle, out, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(out)
        else:
            self.conv1 = nn.Conv2d(inner, middle, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(middle, middle, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(middle), nn.BatchNorm2d(middle)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride > 1 or inner != out:
            shortcut = nn.Conv2d(inner, out, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.bottleneck:
            y = self.bn3(self.conv3(self.relu(y)))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """ResNet-18 and -50, ResNeXt-50."""

    def __init__(self, depths: tuple[int, ...], *, bottleneck: bool, groups: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        inner = 64
        for stage, depth in enumerate(depths):
            for index in range(depth):
                width, stride = 64 << stage, 2 if stage and not index else 1
                blocks.append(Residual(inner, width, stride, groups, bottleneck=bottleneck))
                inner = width * (4 if bottleneck else 1)
        self.blocks, self.avgpool = nn.Sequential(*blocks), nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inner, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.blocks(x)), 1))


def conv_bn(inner: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inner, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    ]


class Inverted(nn.Module):
    """An inverted residual of MobileNet-V2, or with a gate one of EfficientNet."""

    def __init__(
        self,
        inner: int,
        out: int,
        stride: int,
        ratio: int,
        kernel: int = 3,
        gate: bool = False,
        activation: type[nn.Module] = nn.ReLU6,
    ) -> None:
        super().__init__()
        wide = inner * ratio
        layers: list[nn.Module] = []
        if ratio != 1:
            layers += [*conv_bn(inner, wide, 1), activation()]
        layers += [*conv_bn(wide, wide, kernel, stride, wide), activation()]
        if gate:
            layers.append(Gate(wide, max(1, inner // 4)))
        layers += conv_bn(wide, out, 1)
        self.conv, self.same = nn.Sequential(*layers), stride == 1 and inner == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) if self.same else self.conv(x)


class Gate(nn.Module):
    """Squeeze and excite."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = functional.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.up(functional.silu(self.down(pooled))))


class MobileNetV2(nn.Module):
    """MobileNet-V2."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [*conv_bn(3, 32, 3, 2), nn.ReLU6()]
        inner = 32
        table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
        for ratio, out, depth, stride in (*table, (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for index in range(depth):
                layers.append(Inverted(inner, out, 1 if index else stride, ratio))
                inner = out
        layers += [*conv_bn(inner, 1280, 1), nn.ReLU6()]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


class EfficientNetB0(nn.Module):
    """EfficientNet-B0."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [*conv_bn(3, 32, 3, 2), nn.SiLU()]
        inner = 32
        table = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3))
        for ratio, kernel, stride, out, depth in (
            *table,
            (6, 5, 1, 112, 3),
            (6, 5, 2, 192, 4),
            (6, 3, 1, 320, 1),
        ):
            for index in range(depth):
                step = 1 if index else stride
                layers.append(Inverted(inner, out, step, ratio, kernel, True, nn.SiLU))
                inner = out
        self.features = nn.Sequential(*layers, *conv_bn(inner, 1280, 1), nn.SiLU())
        self.fc = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.features(x).mean((2, 3)))


class DenseLayer(nn.Module):
    """A layer of DenseNet: what it makes is joined to what it reads."""

    def __init__(self, inner: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inner), nn.Conv2d(inner, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(functional.relu(self.norm2(y)))], 1)


class DenseNet(nn.Module):
    """DenseNet-121."""

    def __init__(self, depths: tuple[int, ...] = (6, 12, 24, 16)) -> None:
        super().__init__()
        layers: list[nn.Module] = [*conv_bn(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        inner = 64
        for stage, depth in enumerate(depths):
            for _ in range(depth):
                layers.append(DenseLayer(inner, 32))
                inner += 32
            if stage < len(depths) - 1:
                layers += [nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, inner // 2, 1)]
                layers.append(nn.AvgPool2d(2))
                inner //= 2
        self.features, self.fc = (
            nn.Sequential(*layers, nn.BatchNorm2d(inner)),
            nn.Linear(inner, 1000),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.adaptive_avg_pool2d(functional.relu(self.features(x)), 1)
        return self.fc(torch.flatten(y, 1))


class ConvNeXtBlock(nn.Module):
    """A block of ConvNeXt: depthwise, norm over channels, MLP, layer scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """The first two stages of ConvNeXt-T."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 96, 4, 4)
        self.one = nn.Sequential(*(ConvNeXtBlock(96) for _ in range(3)))
        self.halve = nn.Conv2d(96, 192, 2, 2)
        self.two = nn.Sequential(*(ConvNeXtBlock(192) for _ in range(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.halve(self.one(self.stem(x))))


class Attention(nn.Module):
    """Attention with its projections; a context, a mask and causality are choices of the caller."""

    def __init__(self, width: int, heads: int, context: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(context or width, width)
        self.value = nn.Linear(context or width, width)
        self.out = nn.Linear(width, width)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(
        self,
        x: torch.Tensor,
        context: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        causal: bool = False,
    ) -> torch.Tensor:
        other = x if context is None else context
        q, k, v = (
            self.split(self.query(x)),
            self.split(self.key(other)),
            self.split(self.value(other)),
        )
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """A block with its norms in front (ViT, GPT-2) or behind (BERT)."""

    def __init__(
        self, width: int, heads: int, *, behind: bool = False, causal: bool = False
    ) -> None:
        super().__init__()
        self.attention, self.behind, self.causal = Attention(width, heads), behind, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if self.behind:
            x = self.norm1(x + self.attention(x, None, mask, self.causal))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x), None, mask, self.causal)
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """ViT-B/16 with fewer blocks."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 768))
        self.places = nn.Parameter(torch.zeros(1, 197, 768))
        self.blocks = nn.Sequential(*(TransformerBlock(768, 12) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bert(nn.Module):
    """BERT base with fewer layers."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30522, 768), nn.Embedding(512, 768)
        self.norm = nn.LayerNorm(768)
        self.layers = nn.ModuleList(TransformerBlock(768, 12, behind=True) for _ in range(depth))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1])
        x = self.norm(self.words(ids) + self.places(places))
        added = (1.0 - mask[:, None, None, :].float()) * -10000.0
        for layer in self.layers:
            x = layer(x, added)
        return x


class WindowBlock(nn.Module):
    """A block of Swin-T: attention in windows that are shifted by rolling."""

    def __init__(self, width: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.width, self.heads, self.window, self.shift = width, heads, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, window**2, window**2))
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, channels = x.shape
        w = self.window
        y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2))
        y = y.view(batch, height // w, w, width // w, w, channels).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(-1, w * w, channels)
        q, k, v = (
            self.qkv(y)
            .reshape(-1, w * w, 3, self.heads, channels // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        scores = (q * (channels // self.heads) ** -0.5) @ k.transpose(-2, -1) + self.bias
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(-1, w * w, channels)
        y = self.out(y).view(batch, height // w, width // w, w, w, channels)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, channels)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.mlp(self.norm2(x))


class TimeResidual(nn.Module):
    """A residual block of a diffusion U-Net: norms, SiLU, and a shift by the time."""

    def __init__(self, width: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, width), nn.GroupNorm(32, width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(time, width)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.norm1(x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        return x + self.conv2(functional.silu(self.norm2(y)))


class DownBlock(nn.Module):
    """A residual and a transformer of Stable Diffusion 1.5's first down block, and its halving."""

    def __init__(self, width: int = 320) -> None:
        super().__init__()
        self.residual, self.norm = TimeResidual(width, 1280), nn.GroupNorm(32, width)
        self.enter, self.leave = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, 8), Attention(width, 8, 768)
        self.wide, self.narrow = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.down = nn.Conv2d(width, width, 3, 2, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = self.residual(x, time)
        y = self.enter(self.norm(x))
        batch, channels, height, width = y.shape
        y = y.permute(0, 2, 3, 1).reshape(batch, height * width, channels)
        y = y + self.own(self.norms[0](y))
        y = y + self.cross(self.norms[1](y), context)
        value, gate = self.wide(self.norms[2](y)).chunk(2, -1)
        y = y + self.narrow(value * functional.gelu(gate))
        y = y.view(batch, height, width, channels).permute(0, 3, 1, 2)
        return self.down(x + self.leave(y))


def image(size: int = 224) -> Inputs:
    return (torch.zeros(1, 3, size, size),)


def quick(make: type[nn.Module], *args: object, **kwargs: object) -> nn.Module:
    """The module with weights that nobody has filled: counting needs no numbers."""
    with torch.device("meta"):
        made = make(*args, **kwargs)
    return made.to_empty(device="cpu").eval()


def resnet18() -> tuple[nn.Module, Inputs]:
    return quick(ResNet, (2, 2, 2, 2), bottleneck=False), image()


def mobilenet_v2() -> tuple[nn.Module, Inputs]:
    return quick(MobileNetV2), image()


def catalogue() -> dict[str, tuple[nn.Module, Inputs]]:
    """Every network with example inputs."""
    ids = torch.zeros(1, 128, dtype=torch.int64)
    return {
        "resnet18": resnet18(),
        "resnet50": (quick(ResNet, (2, 2, 2, 2), bottleneck=True), image()),
        "resnext50": (quick(ResNet, (1, 1, 1, 1), bottleneck=True, groups=32), image()),
        "mobilenet_v2": mobilenet_v2(),
        "efficientnet_b0": (quick(EfficientNetB0), image()),
        "densenet121": (quick(DenseNet, (2, 3, 2)), image()),
        "convnext": (quick(ConvNeXt), image()),
        "vit": (quick(ViT), image()),
        "bert": (quick(Bert), (ids, torch.ones(1, 128, dtype=torch.int64))),
        "gpt2_block": (quick(TransformerBlock, 768, 12, causal=True), (torch.zeros(1, 64, 768),)),
        "swin_block": (quick(WindowBlock, 96, 3, 7, 3), (torch.zeros(1, 56, 56, 96),)),
        "sd_down_block": (
            quick(DownBlock),
            (torch.zeros(1, 320, 32, 32), torch.zeros(1, 1280), torch.zeros(1, 77, 768)),
        ),
    }
