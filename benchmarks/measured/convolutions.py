"""Rows of convolutions of the library on a whole chip: batch, stride and groups."""

from __future__ import annotations

import re

from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import OpSpec, TensorType

from .element_types import types_of
from .harness import harness_of, resources
from .prediction import Prediction
from .rows import NotExpressible, Row, chip_of
from .units import of_work

#: Groups of rows.
PLAIN, GROUPED = "convolution", "grouped convolution"

_WORDS = re.compile(r"conv(?:olution)?[ _-]?[23]?d?\b|\bconv params|poplin::convolution")
# Programs and vertices that contain convolutions.
_OTHERS = re.compile(r"stencil|vertex|training|inference|cnn|conformer|convnext")
_BACKWARD = re.compile(r"\b(backward|gradient|bwd|weight update|wu)\b")


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is no convolution of the library.

    Images are square and padded as `SAME` does unless the row says otherwise.

    Args:
        row: of any workload.

    Raises:
        NotExpressible: it lacks something.
    """
    if not knows(row):
        return None
    if _BACKWARD.search(row.text):
        raise NotExpressible("a gradient of a convolution without the shapes of its operands")
    chip = chip_of(row)
    dtype, partials = types_of(row, "float32")
    batch = row.whole("batch", "batch size", "n") or 1
    image, kernel = _sides(row, "in", "image", "input", "h"), _sides(row, "filter", "kernel", "k")
    inputs, outputs = _channels(row, "cin", "in channels"), _channels(row, "cout", "out channels")
    stride, groups = row.whole("stride") or 1, row.whole("groups") or 1
    if inputs % groups or outputs % groups:
        raise NotExpressible("the channels are not divisible by the groups")
    # A convolution whose padding is given as none has fewer results.
    lost = kernel - 1 if "padding=valid" in row.text or "no padding" in row.text else 0
    field = -(-(image - lost) // stride)
    if field < 1:
        raise NotExpressible("the filter is larger than the image")
    spec = OpSpec(
        "Conv2D",
        (
            TensorType(dtype, (batch, image, image, inputs)),
            TensorType(dtype, (kernel, kernel, inputs // groups, outputs)),
        ),
        (TensorType(dtype, (batch, field, field, outputs)),),
        {"strides": [1, stride, stride, 1], "padding": "VALID" if lost else "SAME"},
    )
    cycles = catalogue.cost_of(spec, resources(row, chip, partials)).cycles
    cycles += harness_of(row).cycles((spec.inputs[0], spec.outputs[0]), chip)
    operations = 2.0 * batch * field**2 * kernel**2 * (inputs // groups) * outputs
    group = GROUPED if groups > 1 else PLAIN
    shape = f"{batch} x {image} x {image} x {inputs}, {kernel} x {kernel} x {outputs}"
    name = f"{chip.name}, {group}, {shape}, stride {stride}, {groups} groups, {dtype}, {partials}"
    value = of_work(operations, cycles / chip.clock, row, chip)
    return Prediction(row, f"{group} ({chip.title})", chip, value, True, name, cycles=cycles)


def knows(row: Row) -> bool:
    """Whether a row is a convolution of the library."""
    workload = row.workload.lower()
    return bool(_WORDS.search(workload)) and not _OTHERS.search(workload)


def is_grouped(row: Row) -> bool:
    """Whether the channels of a convolution are in groups."""
    return row.parameters.get("groups", "1") != "1"


def _sides(row: Row, *names: str) -> int:
    """A side of a square image or filter.

    Raises:
        NotExpressible: the row does not give it, or gives two.
    """
    text = next((row.parameters[name] for name in names if name in row.parameters), "")
    sides = {side for side in re.split(r"[x*]", text.lower()) if side}
    if len(sides) != 1 or not sides <= {side for side in sides if side.isdecimal()}:
        raise NotExpressible(f"the side of the {names[0]} is not given as one number")
    side = int(sides.pop())
    if side < 1:
        raise NotExpressible(f"the side of the {names[0]} is no whole number from 1")
    return side


def _channels(row: Row, *names: str) -> int:
    """Channels of input or output.

    Raises:
        NotExpressible: the row does not give them.
    """
    channels = row.whole(*names)
    if channels is None:
        raise NotExpressible(f"the channels ({names[0]}) are not given")
    return channels
