"""What is known of a model before there is a program: shapes, types, and what is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering import flow, loss_scales, training
from tensorflow_ipu.frontends.popart.lowering.graphs import Lowering
from tensorflow_ipu.frontends.popart.lowering.services import ProgramServices
from tensorflow_ipu.frontends.popart.lowering.values import Value
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.ops.kinds import Context, Numerics
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

_USUAL = Numerics()


@dataclasses.dataclass(frozen=True)
class Survey:
    """What is known of a model.

    Attributes:
        infos: Shape and type of each tensor.
        trained: The weights that the loss depends on.
        tracked: The tensors whose gradients the loss scale follows.
        draws: Whether an op draws random numbers.
    """

    infos: Mapping[str, TensorInfo]
    trained: tuple[str, ...]
    tracked: tuple[str, ...] = ()
    draws: bool = False


def make(
    model: Model,
    trained: training.Training | None,
    replicas: int,
    differentiated: Sequence[str] = (),
    numerics: Numerics = _USUAL,
    patterns_off: frozenset[str] = frozenset(),
) -> Survey:
    """Looks at a model, by putting it into a graph that never runs.

    Args:
        model: the model.
        trained: how it is trained; None for inference.
        replicas: number of replicas.
        differentiated: tensors whose gradients are wanted.
        numerics: options that change what ops compute.
        patterns_off: patterns that are switched off.

    Raises:
        popart_exception: If nodes do not fit each other, or there is no such loss.
    """
    with tf.Graph().as_default():
        services = ProgramServices()
        context = Context(
            trained is not None,
            replicas,
            numerics,
            services,
            differentiated=frozenset(differentiated),
        )
        lowering = Lowering(model.opsets, context)
        for name, info in model.inputs.items():
            type_ = datatypes.of_member(info.dataType())
            placeholder = tf.compat.v1.placeholder(type_.tf, info.shape())
            lowering.values[name] = Value(placeholder)
        for name, array in model.weights.items():
            lowering.values[name] = _weight(model, name, array, replicas)
        lowering.run(model.nodes)
        infos = {name: _info(value) for name, value in lowering.values.items()}
        floating = [name for name, array in model.weights.items() if array.dtype.kind == "f"]
        found: dict[str, Any] = {}
        if trained is not None:
            wanted = [*floating, *(name for name in differentiated if name in infos)]
            found = _gradients(lowering, model, trained, wanted, patterns_off)
        kept = [name for name in differentiated if name in found]
        infos.update({training.GRADIENT + name: infos[name] for name in kept})
        tracked = _tracked(lowering, model, trained) if trained else ()
    weights = [name for name in floating if name in found]
    return Survey(infos, tuple(weights), tracked, services.needs_seed)


def _weight(model: Model, name: str, array: np.ndarray, replicas: int) -> Value:
    """Returns what stands for a weight: its value on one replica."""
    if model.grouping(name, replicas) is None:
        return Value(tf.compat.v1.placeholder(array.dtype, array.shape), array)
    shape = model.settings[name].shapeOnReplica(list(array.shape), replicas, name)
    return Value(tf.compat.v1.placeholder(array.dtype, shape), is_weight=True)


def _tracked(lowering: Lowering, model: Model, trained: training.Training) -> tuple[str, ...]:
    """Returns the tensors whose gradients the loss scale follows: those that lead to the loss."""
    settings = trained.scale
    if settings is None:
        return ()
    types = {name: value.dtype for name, value in lowering.values.items()}
    names = loss_scales.tracked(settings, model.nodes, types)
    if trained.optimizer.loss_scaling.isConst():
        raise popart_exception(
            'Pass {"lossScaling": (value, False)}. [AutomaticLossScale transform] The optimizer '
            "must have non-const loss scaling"
        )
    return tuple(training.gradients(lowering, trained, names, 1.0))


def _gradients(
    lowering: Lowering,
    model: Model,
    trained: training.Training,
    wanted: Sequence[str],
    patterns_off: frozenset[str],
) -> dict[str, Any]:
    """Returns gradients of the loss by tensor, without those that do not lead to it."""
    if trained.loss not in lowering.values:
        raise popart_exception(
            f"Could not find loss tensor '{trained.loss}' in main graph tensors."
        )

    def type_of(name: str) -> Any:
        return lowering.values[name].dtype if name in lowering.values else None

    flow.check(model.nodes, model.opsets, trained.loss, wanted, type_of, patterns_off)
    return training.gradients(lowering, trained, wanted, 1.0)


def _info(value: Value) -> TensorInfo:
    return TensorInfo(datatypes.of_tf(value.dtype).member, value.shape)
