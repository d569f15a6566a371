"""Recurrences over time: scans with gradients of their own, and sequence lengths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import tensorflow as tf

# --- Gradients ---

# Takes a hashable description of what is computed, and tensors.
Function = Callable[..., Any]


def differentiable(
    forward: Function,
    backward: Function,
    static: Hashable,
    arguments: Sequence[tf.Tensor],
    results: int,
) -> list[tf.Tensor]:
    """Computes something whose gradient is computed by hand.

    Automatic differentiation of a loop adds up the weights' gradients at each step. Backward
    functions here leave that to one matrix product for all steps.

    Args:
        forward: called with `static` and the arguments. Returns the results, and after them tensors
            to be kept for `backward`.
        backward: called with `static`, the arguments, what `forward` returned, and the gradients of
            the results. Returns the gradients of the arguments.
        static: further arguments of both; equal values give equal computations.
        arguments: tensors of floating-point numbers.
        results: how many there are.

    Returns:
        The results.
    """

    @tf.custom_gradient
    def compute(*arguments: tf.Tensor) -> Any:
        values = list(_run(forward, static, *arguments))

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            gradients = _run(backward, static, *arguments, *values, *upstream)
            # TensorFlow does not see what the kept tensors depend on, so a second derivative
            # would lack terms: better an error.
            message = "Recurrent layers have first derivatives only."
            return [tf.raw_ops.PreventGradient(input=g, message=message) for g in gradients]

        return values[:results], gradient

    # Not variables: custom gradients take those for hidden inputs.
    return list(compute(*(tf.convert_to_tensor(argument) for argument in arguments)))


def _run(function: Function, static: Hashable, *tensors: tf.Tensor) -> Any:
    """Calls a function; outside graphs as a graph, so that no step of a loop is in Python."""
    if tf.executing_eagerly():
        return _graph_function(function, static)(*tensors)
    return function(static, *tensors)


@functools.lru_cache(maxsize=256)
def _graph_function(function: Function, static: Hashable) -> Function:
    result: Function = tf.function(functools.partial(function, static), autograph=False)
    return result


def without_gradient(x: tf.Tensor, layer: str) -> tf.Tensor:
    """Returns a tensor that has no gradient.

    Args:
        x: results of a layer in inference.
        layer: name of the layer, for the error that asking for the gradient raises.
    """

    @tf.custom_gradient
    def identity(x: tf.Tensor) -> Any:
        def gradient(_: tf.Tensor) -> NoReturn:
            raise ValueError(
                f"{layer} was called with training=False and has no gradient. Call it with "
                "training=True, or do not differentiate with respect to its inputs and weights."
            )

        return tf.identity(x), gradient

    return identity(tf.convert_to_tensor(x))


# --- Padding ---

# Layers run over the padding too, whose inputs are made zero; nothing of it gets out, so no
# gradient comes back.


def valid(inputs: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns which time steps are before the ends of sequences, bool `[time, batch]`."""
    return tf.transpose(tf.sequence_mask(lengths, tf.shape(inputs)[0]))


def without_padding(x: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Returns `x`, `[time, batch, ...]`, with zeros in the padding, even over NaNs."""
    shape = tf.concat([tf.shape(valid), tf.ones([x.shape.rank - 2], tf.int32)], 0)
    return tf.where(tf.reshape(valid, shape), x, tf.zeros_like(x))


def last(initial: tf.Tensor, states: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the states after the last valid step.

    Args:
        initial: state before the first step, `[batch, units]`, for sequences without any step.
        states: states after all steps, `[time, batch, units]`.
        lengths: lengths of the sequences, int32 `[batch]`.
    """
    batch = tf.range(tf.shape(lengths)[0])
    return tf.gather_nd(tf.concat([initial[None], states], 0), tf.stack([lengths, batch], 1))


# --- Scan ---

Tensors = list[tf.Tensor]
# Multiplies a tensor `[batch, k]` by the weight of a number, `[k, n]`, and adds its bias, `[n]`.
Product = Callable[[int, tf.Tensor], tf.Tensor]


class Cell(Protocol):
    """One time step. Cells are hashable, and equal ones compute the same."""

    def step(self, inputs: Tensors, states: Tensors, product: Product) -> Tensors:
        """Makes the next states, `[batch, units]` each.

        Args:
            inputs: the sequences' values at this time.
            states: the states before.
            product: multiplies by weights. It is called once for each, in their order.
        """

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class _Scan:
    """Counts of a scan's arguments by kind, in the order of the fields."""

    cell: Cell
    sequences: int
    states: int
    weights: int

    def split(self, tensors: Sequence[tf.Tensor]) -> list[Tensors]:
        """Splits arguments (and any tensors after them) into sequences, states, weights, biases."""
        parts, rest = [], list(tensors)
        for count in (self.sequences, self.states, self.weights, self.weights):
            parts.append(rest[:count])
            rest = rest[count:]
        return [*parts, rest]


def scan(
    cell: Cell,
    sequences: Sequence[tf.Tensor],
    states: Sequence[tf.Tensor],
    weights: Sequence[tuple[tf.Tensor, tf.Tensor]],
) -> Tensors:
    """Runs a cell over time.

    Args:
        cell: the time step.
        sequences: its inputs, `[time, batch, ...]` each, with at least one time step.
        states: the states before the first step, `[batch, units]` each.
        weights: a matrix `[k, n]` and a bias `[n]` for each product that the cell makes.

    Returns:
        For each state its values after all steps, `[time, batch, units]`.
    """
    matrices, biases = [w for w, _ in weights], [b for _, b in weights]
    static = _Scan(cell, len(sequences), len(states), len(weights))
    arguments = [*sequences, *states, *matrices, *biases]
    return differentiable(_forward, _backward, static, arguments, len(states))


def _forward(static: _Scan, *arguments: tf.Tensor) -> Tensors:
    """Returns all states, and all products for `_backward`."""
    sequences, states, matrices, biases, _ = static.split(arguments)
    steps = tf.shape(sequences[0])[0]
    batch = sequences[0].shape[1:2]
    widths = [*(state.shape[-1:] for state in states), *(bias.shape for bias in biases)]
    kept = [_array(sequences[0], steps, batch + width) for width in widths]

    def body(time: tf.Tensor, states: Tensors, kept: list[tf.TensorArray]) -> Any:
        products: Tensors = []

        def product(index: int, value: tf.Tensor) -> tf.Tensor:
            products.append(tf.matmul(value, matrices[index]) + biases[index])
            return products[-1]

        states = static.cell.step([s[time] for s in sequences], states, product)
        values = [*states, *products]
        return time + 1, states, [a.write(time, v) for a, v in zip(kept, values)]

    *_, kept = tf.while_loop(
        lambda time, *_: time < steps, body, (0, states, kept), maximum_iterations=steps
    )
    return [_stacked(array, sequences[0]) for array in kept]


def _backward(static: _Scan, *tensors: tf.Tensor) -> Tensors:
    """Returns the gradients of a scan's arguments, from the results of `_forward` and theirs."""
    sequences, initial, matrices, _, rest = static.split(tensors)
    count = static.states
    states, products, upstream = rest[:count], rest[count:-count], rest[-count:]
    previous = [tf.concat([first[None], s[:-1]], 0) for first, s in zip(initial, states)]
    steps = tf.shape(sequences[0])[0]
    batch = sequences[0].shape[1:2]
    shapes = [
        *(sequence.shape[1:] for sequence in sequences),
        *(batch + matrix.shape[:1] for matrix in matrices),
        *(batch + matrix.shape[1:] for matrix in matrices),
    ]
    arrays = [_array(sequences[0], steps, shape) for shape in shapes]

    def body(time: tf.Tensor, carried: Tensors, arrays: list[tf.TensorArray]) -> Any:
        time -= 1
        inputs, before, recalled = ([x[time] for x in xs] for xs in (sequences, previous, products))
        gradients = [carry + gradient[time] for carry, gradient in zip(carried, upstream)]
        carried, kept = _differentiate(static.cell, inputs, before, recalled, matrices, gradients)
        return time, carried, [a.write(time, value) for a, value in zip(arrays, kept)]

    zeros = [tf.zeros_like(state) for state in initial]
    _, carried, arrays = tf.while_loop(
        lambda time, *_: time > 0, body, (steps, zeros, arrays), maximum_iterations=steps
    )
    stacked = [_stacked(array, sequences[0]) for array in arrays]
    of_sequences, of_products = stacked[: len(sequences)], stacked[-len(matrices) :]
    values = stacked[len(sequences) : -len(matrices)]
    of_matrices = [_outer(value, d) for value, d in zip(values, of_products)]
    return [*of_sequences, *carried, *of_matrices, *(tf.reduce_sum(d, [0, 1]) for d in of_products)]


def _differentiate(
    cell: Cell,
    inputs: Tensors,
    states: Tensors,
    products: Tensors,
    matrices: Tensors,
    upstream: Tensors,
) -> tuple[Tensors, Tensors]:
    """Differentiates one step, whose products are known already.

    Returns:
        The gradients of the states; and those of the inputs, what each matrix was multiplied by,
        and the gradients of the products.
    """
    values: Tensors = []
    results: Tensors = []

    def product(index: int, value: tf.Tensor) -> tf.Tensor:
        @tf.custom_gradient
        def recall(_: tf.Tensor) -> Any:
            return tf.identity(products[index]), lambda d: tf.matmul(
                d, matrices[index], transpose_b=True
            )

        values.append(value)
        results.append(recall(value))
        return results[-1]

    with tf.GradientTape() as tape:
        tape.watch([*inputs, *states])
        outputs = cell.step(inputs, states, product)
    sources = (inputs, states, results)
    of_inputs, of_states, of_products = tape.gradient(outputs, sources, upstream, "zero")
    return of_states, [*of_inputs, *values, *of_products]


def _array(like: tf.Tensor, steps: tf.Tensor, shape: Any) -> tf.TensorArray:
    return tf.TensorArray(like.dtype, steps, element_shape=shape)


def _stacked(array: tf.TensorArray, like: tf.Tensor) -> tf.Tensor:
    """Stacks the contents of an array, with the time steps of another tensor."""
    result = array.stack()
    return tf.ensure_shape(result, like.shape[:1] + result.shape[1:])


def _outer(values: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
    """Adds the products of values and gradients up over time and batch: a matrix's gradient."""
    values = tf.reshape(values, [-1, values.shape[-1]])
    gradients = tf.reshape(gradients, [-1, gradients.shape[-1]])
    return tf.matmul(values, gradients, transpose_a=True)
