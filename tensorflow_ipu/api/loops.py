"""Loops on the device: the public module `ipu.loops`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tensorflow.python.framework import constant_op, dtypes, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops, math_ops, tensor_array_ops
from tensorflow.python.ops import while_loop as tf_while_loop

from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.configs.ranges import INT32, Range
from tensorflow_ipu.feeds.ipu_infeed_queue import IPUInfeedQueue, element_arguments, feed_of

tensorflow_hooks.install()

Body = Callable[..., Any]

# A number below 1 makes no iteration, as in `range`.
_ITERATIONS = Range(-INT32, INT32)


def repeat(
    n: int | tensor_lib.Tensor,
    body: Body,
    inputs: Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    use_while_v1: bool = True,
) -> Any:
    """Runs `body` a fixed number of times on the device.

    Args:
        n: number of iterations: a Python int or a scalar int32 tensor.
        body: takes the loop's tensors, then the next element of the infeed (members of a tuple as
            positional arguments; a dict, or a tuple of one dict, as keyword arguments). Returns
            the new tensors, then operations that run in every iteration.
        inputs: initial values of the loop's tensors; None for no tensors.
        infeed_queue: where each iteration gets an element from.
        use_while_v1: has no effect: both kinds of TensorFlow loops compute the same, and the
            device has one kind.

    Returns:
        The final values: the tensor itself if there is one, a list if there are more, and an
        operation if there are none.

    Raises:
        TypeError: If `body` cannot take these arguments, or returns other types than its inputs.
        ValueError: If `n` is a number that is no int32, `body` returns an operation before a
            tensor, or does not read the infeed.
    """

    def condition(i: tensor_lib.Tensor, *_: Any) -> tensor_lib.Tensor:
        return math_ops.less(i, limit)

    values = _as_loop_values(inputs)
    _check_signature("body", body, len(values), infeed_queue)
    body = tensorflow_hooks.converted(body)
    if isinstance(n, (bool, int, float, str)):
        n = _ITERATIONS.whole("n", n)
    limit = ops.convert_to_tensor(n, dtype=dtypes.int32, name="n")
    with ops.name_scope("repeat"):
        start = constant_op.constant(0, dtypes.int32)
        results = _while(condition, body, [start, *values], infeed_queue, None)
    _check_dequeued(infeed_queue)
    return _loop_result(results[0], results[1:])


def while_loop(
    condition: Callable[..., Any],
    body: Body,
    inputs: Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    maximum_iterations: int | tensor_lib.Tensor | None = None,
    use_while_v1: bool = True,
) -> Any:
    """Runs `body` on the device while `condition` holds.

    Args:
        condition: takes the loop's tensors (no infeed element); returns one boolean.
        body: as for `repeat`.
        inputs: initial values of the loop's tensors; None for no tensors.
        infeed_queue: queue that gives each iteration an element.
        maximum_iterations: limit of iterations.
        use_while_v1: has no effect, as for `repeat`.

    Returns:
        As for `repeat`.

    Raises:
        TypeError: If `body` or `condition` cannot take these arguments, or `body` returns other
            types than its inputs.
        ValueError: If `maximum_iterations` is a number that is no int32, `body` returns an
            operation before a tensor, or does not read the infeed.
    """

    def counted_condition(_: tensor_lib.Tensor, *values: Any) -> Any:
        return condition(*values)

    if isinstance(maximum_iterations, (bool, int, float, str)):
        maximum_iterations = _ITERATIONS.whole("maximum_iterations", maximum_iterations)
    values = _as_loop_values(inputs)
    _check_signature("condition", condition, len(values), None)
    _check_signature("body", body, len(values), infeed_queue)
    condition = tensorflow_hooks.converted(condition)
    body = tensorflow_hooks.converted(body)
    with ops.name_scope("while"):
        start = constant_op.constant(0, dtypes.int32)
        results = _while(
            counted_condition, body, [start, *values], infeed_queue, maximum_iterations
        )
    _check_dequeued(infeed_queue)
    return _loop_result(results[0], results[1:])


def _while(
    condition: Callable[..., Any],
    body: Body,
    values: list[Any],
    infeed_queue: IPUInfeedQueue | None,
    maximum_iterations: Any,
) -> list[Any]:
    """Builds the loop. The first value is a counter, which also holds the body's operations."""

    def counted(i: tensor_lib.Tensor, *inner: Any) -> list[Any]:
        result = _call_body(body, list(inner), infeed_queue)
        with ops.control_dependencies(result.operations):
            return [math_ops.add(i, 1), *map(_identity, result.values)]

    return list(
        tf_while_loop.while_loop(
            condition,
            counted,
            values,
            # A device loop is sequential: each iteration sees the side effects of the last one.
            parallel_iterations=1,
            maximum_iterations=maximum_iterations,
            return_same_structure=True,
        )
    )


def _as_loop_values(inputs: Any) -> list[Any]:
    """Converts the inputs of a loop to tensors; TensorArrays are kept."""
    if inputs is None:
        return []
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    return [
        value if isinstance(value, tensor_array_ops.TensorArray) else ops.convert_to_tensor(value)
        for value in inputs
    ]


def _identity(value: Any) -> Any:
    if isinstance(value, tensor_array_ops.TensorArray):
        return value.identity()
    return array_ops.identity(value)


class _BodyResult:
    """The results of a loop body, split into values and operations."""

    def __init__(self, returned: Any, inputs: list[Any]) -> None:
        flat = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        count = next(
            (i for i, value in enumerate(flat) if isinstance(value, ops.Operation)), len(flat)
        )
        self.operations: list[ops.Operation] = flat[count:]
        if not all(isinstance(value, ops.Operation) for value in self.operations):
            raise ValueError(
                "IPU loop body must return zero or more Tensor values, followed by zero or more "
                f"Operations. Received: {[type(value).__name__ for value in flat]}"
            )
        self.values = [self._convert(value) for value in flat[:count]]
        self._check_types(inputs)

    @staticmethod
    def _convert(value: Any) -> Any:
        if isinstance(value, tensor_array_ops.TensorArray):
            return value
        try:
            return ops.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "IPU loop body must return zero or more Tensor values, followed by zero or more "
                f"Operations. Received: {value!r}"
            ) from error

    def _check_types(self, inputs: list[Any]) -> None:
        wanted = [value.dtype.base_dtype.name for value in inputs]
        got = [value.dtype.base_dtype.name for value in self.values]
        if wanted != got:
            raise TypeError(
                "Mismatch between input types and output types for loop body: it takes "
                f"{wanted} and returns {got}. Return one tensor of the same type for each input."
            )


def _call_body(body: Body, values: list[Any], infeed_queue: IPUInfeedQueue | None) -> _BodyResult:
    """Calls the user's body with the loop's values and the next element of the infeed."""
    if infeed_queue is None:
        return _BodyResult(body(*values), values)
    members, keywords = element_arguments(feed_of(infeed_queue).dequeue())
    return _BodyResult(body(*values, *members, **keywords), values)


def _check_signature(
    role: str, function: Callable[..., Any], count: int, infeed_queue: IPUInfeedQueue | None
) -> None:
    """Raises if a function does not take the loop's tensors and the infeed element.

    Raises:
        TypeError: As the name says.
    """
    members, names = element_arguments(
        () if infeed_queue is None else feed_of(infeed_queue).element_spec
    )
    try:
        inspect.signature(function).bind(*range(count), *members, **names)
    except TypeError as error:
        extra = len(members) + len(names)
        infeed = f" and {extra} additional inputs from infeed" if infeed_queue else ""
        raise TypeError(
            f"Supplied loop {role} function cannot be called with the specified inputs. It was "
            f"given {count} loop inputs{infeed}: {error}"
        ) from error
    except ValueError:
        return  # A builtin without a signature: the call itself will tell.


def _check_dequeued(infeed_queue: IPUInfeedQueue | None) -> None:
    if infeed_queue is not None and not infeed_queue.dequeued:
        raise ValueError("The infeed queue has not been dequeued.")


def _loop_result(counter: tensor_lib.Tensor, values: list[Any]) -> Any:
    """Returns the results in the form that their number requires."""
    if not values:
        return counter.op if not isinstance(counter, ops.EagerTensor) else None
    return values[0] if len(values) == 1 else values
