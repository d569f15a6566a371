"""Memory of programs published to fit their IPUs, and of programs the same sources exclude.

Of memory nothing is published but configurations that ran, and rows of a nearly empty program.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

from tensorflow_ipu.configs.chips import BOW, MK2
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.workload import Workload

from . import training
from .configuration import BERT_BASE, BERT_LARGE, RESNET, Configuration
from .prediction import Prediction
from .rows import NotExpressible, Row

#: Head of the table.
HEAD = ("program", "chip", "source", "published", "fullest tile")

_LARGE_CARD = "model card of Graphcore/bert-large-uncased"
_BASE_CARD = "model card of Graphcore/bert-base-uncased"
_EXAMPLES = "graphcore/examples, nlp/bert/tensorflow2"
_MLPERF = "MLPerf Training "


class Case(NamedTuple):
    """A configuration whose memory is known to suffice, or not to.

    Args:
        program: what it is, in words.
        config: the configuration.
        source: where it was published.
        fits: whether it fits; if not, that follows from the source, which avoids it.
        state_on_chip: whether the optimizer's state is on the chip where the source has it off.
        on_one_ipu: whether all stages are on one IPU.
    """

    program: str
    config: Configuration
    source: str
    fits: bool = True
    state_on_chip: bool = False
    on_one_ipu: bool = False


def _large(length: int, micro_batch: int, **changes: object) -> Configuration:
    return Configuration(BERT_LARGE, BOW, 4, micro_batch, 512, length, 1.0, 0)._replace(**changes)


_LARGE, _BASE = _large(128, 8), Configuration(BERT_BASE, BOW, 4, 32, 512, 128, 1.0, 0)
_RESNET = Configuration(RESNET, BOW, 16, 22, 10, 0, 1.0, 0)

#: What is published. Programs with one micro-batch and length are compiled once.
CASES = (
    Case("BERT-Large, 8 x 128 tokens, 4 IPUs", _LARGE, _EXAMPLES),
    Case(
        "the same, optimizer state on the chip", _LARGE, f"{_LARGE_CARD}: off the chip",
        fits=False, state_on_chip=True,
    ),
    Case(
        "the same, all on one IPU", _LARGE, f"{_LARGE_CARD}: 4 IPUs",
        fits=False, on_one_ipu=True,
    ),
    Case("BERT-Large, 2 x 512 tokens, 4 IPUs", _large(512, 2), _LARGE_CARD),
    Case(
        "BERT-Large, 2 x 512 tokens, 4 IPUs", _large(512, 2, chip=MK2, stages=4), _MLPERF + "v1.1"
    ),
    Case(
        "BERT-Large, 3 x 512 tokens, 8 IPUs, proportion 0.3",
        _large(512, 3, replicas=2, accumulation=256, stages=8),
        _MLPERF + "v2.0, 16 IPUs",
    ),
    Case(
        "the same, proportion 1",
        _large(512, 3, replicas=8, accumulation=96, stages=8),
        _MLPERF + "v2.0, 64 IPUs",
    ),
    Case("BERT-Base, 32 x 128 tokens, 4 IPUs", _BASE, f"{_EXAMPLES}; {_BASE_CARD}"),
    Case("ResNet-50, 20 images", _RESNET._replace(chip=MK2, micro_batch=20), _MLPERF + "v1.1"),
    Case("ResNet-50, 22 images", _RESNET, _MLPERF + "v2.0"),
)  # fmt: skip


def predict(row: Row) -> Prediction | None:
    """Returns None if the row is none of these.

    Raises:
        NotExpressible: always else. What an empty program needs is an input of the model.
    """
    if row.unit == "bytes" and "adder" in row.workload.lower():
        raise NotExpressible("the model's figures of an empty program come from these rows")
    return None


def fullest_tile(case: Case) -> float:
    """Returns which part of its memory the fullest tile of all IPUs uses, by the plan."""
    workload, settings = training.whole_program(case.config), training.settings(case.config)
    if case.state_on_chip:
        workload = _on_chip(workload)
    if case.on_one_ipu and workload.pipeline is not None:
        settings = settings.replace(stage_devices=(0,) * workload.pipeline.stages)
    memory = Planner(workload).memory(settings)
    return max(ipu.worst_bytes / ipu.capacity for ipu in memory)


@functools.cache
def table() -> tuple[tuple[str, ...], ...]:
    """Returns the rows of the table, as text."""
    return tuple(
        (
            case.program,
            case.config.chip.title,
            case.source,
            "fits" if case.fits else "avoided",
            f"{fullest_tile(case):.0%}",
        )
        for case in CASES
    )


def _on_chip(workload: Workload) -> Workload:
    """The program with nothing in streaming memory."""
    variables = (v._replace(offloaded=False, split=1) for v in workload.variables)
    return dataclasses.replace(workload, variables=tuple(variables))
