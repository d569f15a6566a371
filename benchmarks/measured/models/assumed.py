"""Rows of models whose layout on the IPUs is not published."""

from __future__ import annotations

import functools
import gc
import importlib
import re
import sys

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload

from ..configuration import ipus_of, split_batch
from ..prediction import Prediction
from ..replicate import replicated, with_count
from ..rows import NotExpressible, Row, chip_of
from ..units import is_rate, of_time
from .catalogue import MODELS, Model, Program

#: What stands behind the name of a model in that of its group.
GROUP = "training, layout assumed"

_PROPORTION = 0.2
# Gradients are summed over replicas in buffers of this many bytes.
_MERGED = 10_000_000
# Mini-batches of an execution are a multiple of twice the stages.
_COUNT_PER_STAGE = 2


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is of none of these models.

    Args:
        row: of any workload.

    Raises:
        NotExpressible: it lacks something.
    """
    model = next((m for m in MODELS if re.search(m.words, row.workload.lower())), None)
    if model is None:
        return None
    samples = _samples(row, model)
    chip = chip_of(row)
    replicas = ipus_of(row) // model.ipus
    batch = row.number("gbs", "global batch")
    if batch is None:
        raise NotExpressible("the batch size is not given")
    if replicas < 1:
        raise NotExpressible("fewer IPUs than a replica has")
    micro_batch, count = split_batch(batch, replicas, None, model.micro_batch)
    partials = "float32" if row.parameters.get("precision") == "16.32" else "float16"
    seconds = _seconds(model, chip, replicas, micro_batch, count, partials)
    value = batch / seconds if samples is None else of_time(samples / batch * seconds, row, chip)
    name = f"{model.name}, {chip}, {replicas} x {micro_batch} x {count}, {partials}"
    return Prediction(row, f"{model.name}, {GROUP}", chip, value, configuration=name)


def _samples(row: Row, model: Model) -> int | None:
    """Samples of the time of a row; None for a throughput."""
    metric = row.metric.lower()
    if is_rate(row) and "throughput" in metric:
        return None
    if "epoch time" in metric and model.epoch:
        return model.epoch
    if "time to train" in metric and model.epoch and model.epochs:
        return model.epoch * model.epochs
    raise NotExpressible(f"what '{row.metric}' comprises is not given")


@functools.lru_cache(maxsize=256)
def _seconds(
    model: Model, chip: Chip, replicas: int, micro_batch: int, count: int, partials: str
) -> float:
    """Seconds of one weight update."""
    workload = with_count(workload_of(model, micro_batch), count)
    return planning.Planner(workload).timeline(settings(model, chip, replicas, partials)).seconds


def settings(model: Model, chip: Chip, replicas: int, partials: str) -> Settings:
    """Returns the planner settings of a program.

    Args:
        model: the model.
        chip: the chip.
        replicas: copies that run at once.
        partials: type of sums of float16 products.
    """
    return Settings(
        chip=chip,
        replicas=replicas,
        recompute=model.recompute,
        convolution_proportion=_PROPORTION,
        matmul_proportion=_PROPORTION,
        convolution_partials=partials,
        matmul_partials=partials,
        merged_bytes={"maximum_cross_replica_sum_buffer_size": _MERGED},
    )


@functools.lru_cache(maxsize=64)
def workload_of(model: Model, micro_batch: int) -> Workload:
    """Returns the program of a model as data.

    Args:
        model: the model.
        micro_batch: items in a micro-batch.
    """
    # TensorFlow takes seconds to import, which rows without whole models do not need.
    from tensorflow_ipu.compiler.workload import describe

    from .. import programs

    print(f"compiling {model.name}, micro-batch {micro_batch}", file=sys.stderr)
    program = program_of(model)
    stages = program.stages(micro_batch)
    devices = tuple(range(len(stages))) if model.ipus > 1 else (0,) * len(stages)
    schedule = "Grouped" if model.ipus > 1 else "Sequential"
    layout = programs.Layout(devices, schedule, model.recompute, model.momentum)
    count = _COUNT_PER_STAGE * len(stages)
    executable = programs.compile_pipeline(
        "training", stages, program.element(micro_batch), layout, count
    )
    workload = describe.workload(executable)
    del executable
    gc.collect()
    return replicated(workload, program.repeats)


def program_of(model: Model) -> Program:
    """Returns the stages, data and repeated layers of a model."""
    module = importlib.import_module(f".{model.module}", __package__)
    return Program(module.stages, module.element, module.REPEATS)
