"""Compares predictions for changed settings with compiled ResNet-50, encoder and LSTM programs.

For each change (batch, replicas, gradient accumulation, pipeline stages) it prints cycles of a
launch and bytes on the fullest tile, as said of the unchanged program and as planned of the one
that is compiled with the change, and their ratios. Wanted: cycles within 5 %, memory within 2 %.
Stages are compiled with the cut that `split` finds, and their bubbles are compared, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import reports
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.tuning import what_if
from tensorflow_ipu.tuning.stages import stage_split

BATCH, CLASSES = 4, 10
# Mini-batches of a launch without accumulation.
STEPS = 2
CHANGES: Sequence[Mapping[str, int]] = (
    {"batch": 8},
    {"replicas": 2},
    {"replicas": 4},
    {"count": 4},
    {"stages": 2, "count": 8},
    {"stages": 4, "count": 16},
)


def resnet() -> tf.keras.Model:
    """Returns Keras's ResNet-50, whole, for small images."""
    return tf.keras.applications.ResNet50(
        weights=None, input_shape=(64, 64, 3), classes=CLASSES, classifier_activation=None
    )


def encoder() -> tf.keras.Model:
    """Returns an encoder of four blocks that predicts words."""
    return reports.bert(blocks=4, activation=None)


def lstm() -> tf.keras.Model:
    """Returns two recurrent layers and a dense one."""
    layers = tf.keras.layers
    recurrent = [layers.LSTM(32, return_sequences=True), layers.LSTM(32)]
    return tf.keras.Sequential([layers.Input((8, 16)), *recurrent, layers.Dense(CLASSES)])


MODELS = {model.__name__: model for model in (resnet, encoder, lstm)}


def compiled(
    make: Callable[[], tf.keras.Model],
    batch: int = BATCH,
    replicas: int = 1,
    count: int = 1,
    stages: Sequence[Sequence[str]] = (),
) -> Workload:
    """Returns the training program of a model.

    Args:
        make: makes the model.
        batch: elements of a mini-batch.
        replicas: how many copies of it.
        count: mini-batches of an update.
        stages: names of the layers of each pipeline stage; empty without a pipeline.
    """
    ipu.config.reset_ipu_configuration()  # programs that were compiled before go with it
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = replicas * max(len(stages), 1)
    config.configure_ipu_system()
    tf.keras.backend.reset_uids()  # layers have the same names each time
    steps = (STEPS if count == 1 else count) * replicas
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
        if stages:
            assign(model, stages, count)
        elif count > 1:
            model.set_gradient_accumulation_options(count)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.SGD(0.1, 0.9), loss, steps_per_execution=steps)
        dtype = model.inputs[0].dtype.as_numpy_dtype
        inputs = np.zeros([batch, *model.input_shape[1:]], dtype)
        labels = np.zeros([batch, *model.output_shape[1:-1]], np.int32)
        data = tf.data.Dataset.from_tensors((inputs, labels)).repeat(steps)
        model.fit(data, verbose=0)
    return max(ipu.profiler.executables(), key=lambda e: len(e.variables)).workload


def assign(model: Any, stages: Sequence[Sequence[str]], count: int) -> None:
    """Puts the layers of a model into pipeline stages.

    Args:
        model: the model.
        stages: names of the layers of each stage.
        count: mini-batches of an update.
    """
    known = {layer: stage for stage, layers in enumerate(stages) for layer in layers}
    stage = 0
    assignment = model.get_pipeline_stage_assignment()
    for element in assignment:
        stage = known.get(element.layer.name, stage)
        element.pipeline_stage = stage
    model.set_pipeline_stage_assignment(assignment)
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=count)


def compare(make: Callable[[], tf.keras.Model], alone: Workload, change: Mapping[str, int]) -> None:
    """Prints a line for one change of a model.

    Args:
        make: makes the model.
        alone: its program without the change.
        change: what is changed.
    """
    (said,) = what_if.outcomes(alone, Settings(), {name: [value] for name, value in change.items()})
    options = {name: value for name, value in change.items() if name != "stages"}
    stages: Sequence[Sequence[str]] = ()
    if "stages" in change:
        split = stage_split.split(alone, Settings(), change["stages"], count=change["count"])
        stages = [stage.layers for stage in split.stages]
    real = planning.plan(
        compiled(make, stages=stages, **options), Settings(replicas=change.get("replicas", 1))
    )
    cycles, worst = said.cycles or 0.0, said.worst or 0
    line = (
        f"{make.__name__}, {', '.join(f'{name} {value}' for name, value in change.items())}: "
        f"cycles {cycles:,.0f}, compiled {real.timeline.cycles:,.0f} "
        f"({cycles / real.timeline.cycles:.3f}); fullest tile {worst:,} B, compiled "
        f"{real.fullest.worst_bytes:,} B ({worst / real.fullest.worst_bytes:.3f})"
    )
    if stages:
        bubble = real.timeline.bubble_share or 0.0
        line += f"; bubble {said.bubble_share or 0.0:.1%}, compiled {bubble:.1%}"
    print(line, flush=True)


def main() -> None:
    """Compares all changes of the models and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    for name in parser.parse_args().models:
        alone = compiled(MODELS[name])
        for change in CHANGES:
            if change.get("stages", 0) > 2 and name == "lstm":
                continue  # it has three layers
            compare(MODELS[name], alone, change)


if __name__ == "__main__":
    main()
