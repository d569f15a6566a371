"""Time of one weight update of a whole model, from a plan of its program."""

from __future__ import annotations

import functools
import gc
import sys

from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Timeline
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload

from .configuration import BERT_BASE, RESNET, Configuration
from .replicate import replicated, with_count

# Encoder layers on each IPU: graphcore/examples for four IPUs; else spread evenly.
_LARGE_LAYERS, _BASE_LAYERS = 24, 12
_LARGE_ON_4, _BASE_ON_4 = (3, 7, 7, 7), (0, 4, 4, 4)
_HIDDEN = {True: 1024, False: 768}
_RESNET_PROPORTION, _BERT_PROPORTION = 0.15, 0.2
# Gradients are summed over replicas in buffers of this many bytes.
_MERGED = 10_000_000
# IPUs of the layout of TensorFlow; the heads are on the first of them again.
_IPUS = 4
# Mini-batches of an execution are a multiple of twice the stages.
_COUNT_PER_STAGE = 2


def seconds(config: Configuration) -> float:
    """Returns the seconds of one weight update: micro-batches, collectives and update."""
    return plan(config).seconds


def plan(config: Configuration) -> Timeline:
    """Returns the timeline of one weight update."""
    return _plan(config._replace(packed=1.0))


@functools.lru_cache(maxsize=1024)
def _plan(config: Configuration) -> Timeline:
    layers = encoder_layers(config)
    workload = _workload(config.model, config.length, config.micro_batch, layers)
    return planning.Planner(with_count(workload, config.accumulation)).timeline(settings(config))


def fullest_tile(config: Configuration) -> float:
    """Returns which part of its memory the fullest tile uses, for a program of one IPU."""
    workload = _workload(config.model, config.length, config.micro_batch, encoder_layers(config))
    planner = planning.Planner(with_count(workload, config.accumulation))
    (ipu,) = planner.memory(settings(config))
    return ipu.worst_bytes / ipu.capacity


def settings(config: Configuration) -> Settings:
    """Returns what a program is planned for."""
    proportion = _RESNET_PROPORTION if config.model == RESNET else _BERT_PROPORTION
    return Settings(
        chip=config.chip,
        replicas=config.replicas,
        recompute=True,
        convolution_proportion=proportion,
        matmul_proportion=proportion,
        convolution_partials="float16",
        matmul_partials="float16",
        merged_bytes={"maximum_cross_replica_sum_buffer_size": _MERGED},
    )


def encoder_layers(config: Configuration) -> tuple[int, ...]:
    """Returns the encoder layers of each IPU; none for ResNet."""
    if config.model == RESNET:
        return ()
    base = config.model == BERT_BASE
    if config.stages in (0, _IPUS):
        return _BASE_ON_4 if base else _LARGE_ON_4
    total = _BASE_LAYERS if base else _LARGE_LAYERS
    # What is left over goes to the last IPUs: the first has embeddings and heads.
    return tuple(
        total * (index + 1) // config.stages - total * index // config.stages
        for index in range(config.stages)
    )


@functools.lru_cache(maxsize=64)
def _workload(model: str, length: int, micro_batch: int, layers: tuple[int, ...]) -> Workload:
    """The program as data; compiled once for each shape of it."""
    # TensorFlow takes seconds to import, which rows without whole models do not need.
    from tensorflow_ipu.compiler.workload import describe

    from . import bert, programs, resnet

    size = f"{length} tokens, " if length else ""
    print(f"compiling {model}, {size}micro-batch {micro_batch}", file=sys.stderr)
    if model == RESNET:
        stages = resnet.stages()
        layout = programs.Layout((0,) * len(stages), "Sequential", True, True)
        element = resnet.element(micro_batch)
    else:
        sizes = bert.Shape(_HIDDEN[model != BERT_BASE], length, micro_batch)
        stages = bert.stages(sizes, [min(count, 1) for count in layers])
        layout = programs.Layout((*range(len(layers)), 0), "Grouped", True, False)
        element = bert.element(sizes)
    count = _COUNT_PER_STAGE * len(stages)
    executable = programs.compile_pipeline("training", stages, element, layout, count)
    workload = describe.workload(executable)
    del executable
    gc.collect()
    present = [count for count in layers if count]
    return replicated(workload, dict(enumerate(present)))
