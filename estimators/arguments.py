"""Checks of the arguments of estimators and their methods, and of their training graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.util import function_utils

from tensorflow_ipu.distributed.instance_strategy import InstanceStrategy
from tensorflow_ipu.estimators.ipu_run_config import RunConfig
from tensorflow_ipu.util import op_names


def check_config(config: Any, allows_loops: bool) -> None:
    """Raises if a configuration cannot run estimators for IPUs.

    Args:
        config: the user's configuration.
        allows_loops: whether one run may have several steps when there is a distribution strategy.

    Raises:
        ValueError: If it is not the `RunConfig` for IPUs.
        NotImplementedError: If it asks for a distribution strategy that cannot be had.
    """
    if not isinstance(config, RunConfig):
        raise ValueError(
            "`config` must be provided with type `ipu.ipu_run_config.RunConfig`. "
            f"Received: {type(config).__name__}"
        )
    iterations = config.ipu_run_config.iterations_per_loop
    for name in ("train_distribute", "eval_distribute"):
        strategy = getattr(config, name)
        if strategy is None:
            continue
        if not isinstance(strategy, InstanceStrategy):
            raise NotImplementedError(
                f"Estimators for IPUs cannot run with a {type(strategy).__name__}: {name} must be "
                "None, or a strategy for several processes such as an IPUMultiWorkerStrategy. "
                "Train on several IPUs with num_replicas of the IPURunConfig."
            )
        if iterations > 1 and not allows_loops:
            raise NotImplementedError(
                f"iterations_per_loop > 1 (got {iterations}) not supported with distribution, "
                f"which {name} asks for: processes exchange gradients on their hosts in each step. "
                "Set iterations_per_loop of the IPURunConfig to 1."
            )


def check_params(params: Any) -> None:
    """Raises if `params` cannot be passed on.

    Raises:
        ValueError: If they are no dict, or have a reserved key.
    """
    if params is None:
        return
    if not isinstance(params, dict):
        raise ValueError(f"`params` must be a dict. Received: {type(params).__name__}")
    if "input_fn" in params:
        raise ValueError(
            "`params` has the key 'input_fn', which is reserved. Give it another name."
        )


def check_batch_sizes(
    params: dict[str, Any] | None, sizes: dict[str, Any], num_workers: int, num_replicas: int
) -> None:
    """Checks the global batch sizes of a constructor.

    Args:
        params: the user's parameters.
        sizes: the argument for each mode, by its name; None where it was not given.
        num_workers: number of processes.
        num_replicas: number of replicas in each process.

    Raises:
        ValueError: If a size cannot be divided, or `params` has one too.
    """
    given = {name: size for name, size in sizes.items() if size is not None}
    if given and params is not None and "batch_size" in params:
        raise ValueError(
            "batch_size cannot be passed in params when a batch size argument is passed to the "
            "estimator, from which params['batch_size'] is made. Give one of them. Received: "
            f"{', '.join(given)}"
        )
    for name, size in given.items():
        if size < 1:
            raise ValueError(f"{name} (got {size}) must be positive.")
        if size % (num_workers * num_replicas):
            raise ValueError(
                f"{name} (got {size}) must be divisible by num_workers * num_replicas "
                f"({num_workers} * {num_replicas}), as it is the size of a batch of all replicas "
                "together."
            )


def check_training_steps(steps: int | None, max_steps: int | None, iterations: int) -> None:
    """Checks how long to train.

    Raises:
        ValueError: If not exactly one number is given, or runs do not divide it.
    """
    if steps is None and max_steps is None:
        raise ValueError(
            "One of `num_steps` or `final_step` must be given, that is `steps` or `max_steps` of "
            "train: estimators for IPUs do not train until the dataset ends."
        )
    if steps is not None and max_steps is not None:
        raise ValueError(
            "Only one of `num_steps` or `final_step` can be given, that is `steps` or `max_steps` "
            f"of train. Can not provide both steps and max_steps. Received: {steps}, {max_steps}"
        )
    if steps is not None:
        _check_multiple(steps, iterations)


def check_evaluation_steps(steps: int | None, iterations: int) -> None:
    """Checks how long to evaluate.

    Raises:
        ValueError: If the number is missing, or runs do not divide it.
    """
    if steps is None:
        raise ValueError(
            "`steps` of evaluate must be given: estimators for IPUs do not evaluate until the "
            "dataset ends. Received: steps=None"
        )
    _check_multiple(steps, iterations)


def _check_multiple(steps: int, iterations: int) -> None:
    if steps % iterations:
        raise ValueError(
            f"steps ({steps}) must be a multiple of iterations_per_loop ({iterations}), as each "
            "run of the session does so many."
        )


def check_accepts_params(input_fn: Callable[..., Any]) -> None:
    """Raises if an `input_fn` takes no batch size.

    Raises:
        ValueError: If it has no argument `params`.
    """
    if "params" not in function_utils.fn_args(input_fn):
        raise ValueError(
            f"input_fn ({function_utils.get_func_name(input_fn)}) does not include params "
            "argument, required by IPUEstimator to pass batch size as params['batch_size'], since "
            "a batch size was given to its constructor."
        )


def accepted_by(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns those arguments that a user's function takes by name."""
    names = function_utils.fn_args(function)
    return {name: value for name, value in arguments.items() if name in names}


# --- Graphs of training programs ---


def check_replicated_training(graph: tf.Graph, replicas: int) -> None:
    """Raises if a training program updates replicas differently.

    Args:
        graph: the graph built so far: all of the model and its training, nothing of the estimator.
        replicas: how many there will be.

    Raises:
        ValueError: If there are several and no op reduces over them.
    """
    if replicas == 1:
        return
    if not any(
        op.type in op_names.AGREEING_COLLECTIVES
        for inner, _ in _graphs(graph, ())
        for op in _ops(inner)
    ):
        raise ValueError(
            "This is not a valid replicated training graph because no AllReduce operations were "
            f"found: {replicas} replicas would train {replicas} different models. Wrap the "
            "optimizer in ipu.cross_replica_optimizer.CrossReplicaOptimizer."
        )


def check_global_step(graph: tf.Graph, global_step: Any) -> None:
    """Raises if a model advances the global step, which is the estimator's task.

    Args:
        graph: the graph built so far.
        global_step: the variable.

    Raises:
        ValueError: If an op in the graph assigns to the variable.
    """
    for inner, handles in _graphs(graph, [global_step.handle]):
        for op in _ops(inner):
            if op.type in op_names.ASSIGNMENTS and any(
                op.inputs[0] is handle for handle in handles
            ):
                raise ValueError(
                    "Illegal increment of the `global_step` variable in the `model_fn`, by the op "
                    f"'{op.name}'. The estimator advances it by iterations_per_loop in each run. "
                    "Leave out the argument `global_step` of minimize or apply_gradients."
                )


def _ops(graph: tf.Graph) -> list[tf.Operation]:
    return list(graph.get_operations())


def _graphs(graph: tf.Graph, tensors: Any) -> Iterator[tuple[tf.Graph, list[tf.Tensor]]]:
    """Yields a graph and all functions in it, each with the given tensors as it knows them.

    Args:
        graph: a function that is being built.
        tensors: tensors around it, or in it.
    """
    captured = [
        inner
        for outer, inner in getattr(graph, "captures", ())
        if any(outer is tensor for tensor in tensors)
    ]
    known = [*tensors, *captured]
    yield graph, known
    for function in graph._functions.values():
        if not hasattr(function, "graph"):  # of the decorator `Defun` of TensorFlow 1
            continue
        yield from _graphs(function.graph, known)
