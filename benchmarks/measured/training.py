"""Time of one weight update of a whole model, from a plan of its program."""

from __future__ import annotations

import functools
import gc
import sys

from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Timeline
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.workload import Workload

from .configuration import BERT_BASE, BERT_LARGE, OFF_CHIP, RESNET, Configuration
from .models.distributed_norms import distributed
from .replicate import replicated, with_count, with_replicas

# Encoder layers on each IPU: graphcore/examples for four IPUs; else spread evenly.
_LARGE_LAYERS, _BASE_LAYERS = 24, 12
_LARGE_ON_4, _BASE_ON_4 = (3, 7, 7, 7), (0, 4, 4, 4)
_HIDDEN = {True: 1024, False: 768}
# availableMemoryProportion of ResNet; of BERT on GC200 in MLPerf (0.20 to 0.25), and on Bow, on 16
# IPUs and on more; of BERT on four IPUs, on each by size and tokens (graphcore/examples;
# for 512 tokens the model card of Graphcore/bert-large-uncased).
_RESNET_PROPORTION, _BERT_PROPORTION = 0.15, 0.2
_ON_BOW, _ON_MORE = 0.3, 1.0
_PROPORTIONS = {
    BERT_LARGE: {
        128: (0.10, 0.19, 0.20, 0.25),
        384: (0.15, 0.28, 0.40, 0.40),
        512: (0.10, 0.15, 0.15, 0.15),
    },
    BERT_BASE: {128: (0.28, 0.26, 0.28, 0.28), 384: (0.28, 0.26, 0.28, 0.28)},
}
_POD16 = 16
#: Gradients are summed over replicas in buffers of up to so many bytes.
MERGED = 10_000_000
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


def parts(config: Configuration) -> tuple[tuple[str, float], ...]:
    """Returns the kind of interval and the cycles of each op of one weight update."""
    found = throughput.parts_of(_whole(config._replace(packed=1.0)), plan(config))
    return tuple((interval.kind, cycles) for interval, cycles in found)


@functools.lru_cache(maxsize=1024)
def _plan(config: Configuration) -> Timeline:
    return planning.Planner(_whole(config)).timeline(settings(config))


def _whole(config: Configuration) -> Workload:
    """The program of a configuration with its counts."""
    workload = _workload(config, encoder_layers(config))
    return with_replicas(with_count(workload, config.accumulation), config.replicas)


def whole_program(config: Configuration) -> Workload:
    """Returns the program of a configuration with all its layers, whose memory can be planned."""
    layers = encoder_layers(config)
    workload = _compiled(config.model, config.length, config.micro_batch, layers)
    return with_replicas(with_count(workload, config.accumulation), config.replicas)


def settings(config: Configuration) -> Settings:
    """Returns the planner settings of a program."""
    proportion = _proportion(config)
    return Settings(
        chip=config.release.with_links(config.chip),
        replicas=config.replicas,
        recompute=True,
        convolution_proportion=proportion,
        matmul_proportion=proportion,
        stage_options=_stage_options(config),
        convolution_partials="float16",
        matmul_partials="float16",
        merged_bytes={"maximum_cross_replica_sum_buffer_size": MERGED},
    )


def _proportion(config: Configuration) -> float:
    """The proportion of all stages, where they have none of their own."""
    if config.model == RESNET:
        return _RESNET_PROPORTION
    if config.chip.name != "bow" or not config.stages:
        return _BERT_PROPORTION
    return _ON_BOW if config.replicas * config.stages <= _POD16 else _ON_MORE


def _stage_options(config: Configuration) -> dict[tuple[int, str], dict[str, str]]:
    """Returns memory proportions of BERT's stages on four IPUs; empty for a uniform one."""
    if config.model == RESNET or config.stages:
        return {}
    known = _PROPORTIONS[config.model]
    on_ipus = known[min(known, key=lambda tokens: abs(tokens - config.length))]
    # The heads are on the first IPU again.
    return {
        (stage, phase): {"availableMemoryProportion": str(proportion)}
        for stage, proportion in enumerate((*on_ipus, on_ipus[0]))
        for phase in ("forward", "backward")
    }


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


def _workload(config: Configuration, layers: tuple[int, ...]) -> Workload:
    """Returns the program's workload; BERT is compiled with one layer per stage for each shape."""
    model, length, micro_batch = config.model, config.length, config.micro_batch
    if model == RESNET:
        return _of_norm_group(micro_batch, config.norm_group)
    return _of_layers(model, length, micro_batch, layers)


@functools.lru_cache(maxsize=64)
def _of_norm_group(micro_batch: int, norm_group: int) -> Workload:
    """ResNet whose batch norms have the statistics of a group of replicas."""
    workload = _compiled(RESNET, 0, micro_batch, ())
    return distributed(workload, norm_group) if norm_group > 1 else workload


@functools.lru_cache(maxsize=64)
def _of_layers(model: str, length: int, micro_batch: int, layers: tuple[int, ...]) -> Workload:
    """BERT with as many encoder layers on each IPU as are given."""
    workload = _compiled(model, length, micro_batch, tuple(min(count, 1) for count in layers))
    present = [count for count in layers if count]
    return replicated(workload, dict(enumerate(present)))


# Programs of the same shape follow each other; whole ones are large.
@functools.lru_cache(maxsize=1)
def _compiled(model: str, length: int, micro_batch: int, layers: tuple[int, ...]) -> Workload:
    # TensorFlow takes seconds to import, which rows without whole models do not need.
    from tensorflow_ipu.compiler.workload import describe

    from . import programs
    from .models import bert, resnet

    size = f"{length} tokens, " if length else ""
    print(f"compiling {model}, {size}micro-batch {micro_batch}", file=sys.stderr)
    if model == RESNET:
        stages = resnet.stages()
        layout = programs.Layout((0,) * len(stages), "Sequential", True, True)
        element = resnet.element(micro_batch)
    else:
        sizes = bert.Shape(_HIDDEN[model != BERT_BASE], length, micro_batch)
        stages = bert.stages(sizes, layers)
        devices, offload = (*range(len(layers)), 0), model in OFF_CHIP
        layout = programs.Layout(devices, "Grouped", True, False, offload)
        element = bert.element(sizes)
    count = _COUNT_PER_STAGE * len(stages)
    executable = programs.compile_pipeline("training", stages, element, layout, count)
    workload = describe.workload(executable)
    del executable
    gc.collect()
    return workload
