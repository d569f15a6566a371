"""The models whose layout is assumed: which rows are theirs, and how each is laid out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Model(NamedTuple):
    """A model and its layout.

    Args:
        name: of its group.
        words: a regular expression that its rows' workload has, in lower case.
        module: of this folder, which has `stages`, `element` and `REPEATS`.
        ipus: of a replica, each with a stage; one for sequential stages.
        micro_batch: the largest that is taken.
        momentum: whether the optimizer is SGD with momentum, else Adam.
        recompute: whether activations are computed again.
        epoch: samples of an epoch, 0 if no row is about one.
        epochs: to the target of MLPerf, as in the published logs; 0 likewise.
    """

    name: str
    words: str
    module: str
    ipus: int
    micro_batch: int
    momentum: bool
    recompute: bool = True
    epoch: int = 0
    epochs: int = 0


#: All of them. The micro-batches divide the published batches and fit, but for RNN-T, whose fullest
#: tile is over by a quarter.
MODELS = (
    Model("ViT-Base", r"\bvit\b", "vit", 4, 16, momentum=False),
    Model("EfficientNet-B4, G16", r"efficientnet-b4 \(g16\)", "efficientnet", 4, 6, momentum=True),
    Model("ResNeXt-101", r"resnext-101", "resnext", 1, 8, momentum=True),
    Model("U-Net, medical", r"\bu-?net\b", "unet", 4, 1, momentum=False),
    Model("RNN-T", r"\brnn-t\b", "rnnt", 2, 2, momentum=False, epoch=279_512, epochs=51),
    Model("Conformer-M", r"conformer-medium", "conformer", 4, 4, momentum=False),
)


class Program(NamedTuple):
    """Program of one model: its stages and its infeed element.

    Args:
        stages: the forward stages for a micro-batch.
        element: what the infeed has for a micro-batch.
        repeats: how often each layer `layer_N` is there.
    """

    stages: Callable[[int], list[Callable[..., Any]]]
    element: Callable[[int], tuple[Any, ...]]
    repeats: Mapping[int, int]
