"""The places where TensorFlow itself has to know of IPUs. All of them are here.

* `tf.function` objects with `jit_compile=True` go to XLA, which has no IPU backend. Called with an
  IPU device in scope, they are launched as Clusters; inside a Cluster they are inlined.
* `iter(dataset)` in the scope of an `IPUStrategy` gives an iterator that programs on the device
  can read.
* AutoGraph leaves the functions of this package alone, as it does TensorFlow's own. Those that call
  functions of the user convert them with `converted`.
* Gradient ops belong where their forward ops are: on the same IPU, in the same pipeline stage.
* Branches and loop bodies are graphs of their own, which would not see the scopes of `ipu.scopes`
  around them: shards, frontend attributes, outside compilation.

None of this changes anything for code that has no IPU device in scope.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python import pywrap_tfe
from tensorflow.python.autograph.core import ag_ctx
from tensorflow.python.autograph.core import config as autograph_config
from tensorflow.python.autograph.impl import api as autograph
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import backprop, context, record
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import errors, ops
from tensorflow.python.ops import control_flow_v2_func_graphs, gradients_util

from tensorflow_ipu import placement
from tensorflow_ipu.compiler import functions, trace
from tensorflow_ipu.compiler.program import (
    MULTI_CONV_ATTRIBUTE,
    PHASE_ATTRIBUTE,
    SHARDING_ATTRIBUTE,
    STAGE_ATTRIBUTE,
)

# What gradient ops take over from their forward op.
_FOLLOWED = (SHARDING_ATTRIBUTE, STAGE_ATTRIBUTE, PHASE_ATTRIBUTE, MULTI_CONV_ATTRIBUTE)


@functools.cache
def install() -> None:
    """Installs the hooks, once in a process."""
    _hook_autograph()
    _hook_functions()
    _hook_datasets()
    _hook_control_flow()


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a user's function as AutoGraph makes it, where a function is traced with that."""
    result: Callable[..., Any] = autograph.tf_convert(function, ag_ctx.control_status_ctx())
    return result


def _hook_autograph() -> None:
    package = __name__.split(".")[0]
    autograph_config.CONVERSION_RULES = (
        autograph_config.DoNotConvert(package),
        *autograph_config.CONVERSION_RULES,
    )


def _hook_functions() -> None:
    function_class = polymorphic_function.Function
    call = function_class.__call__

    @functools.wraps(call)
    def call_on_ipu(self: polymorphic_function.Function, *args: Any, **kwargs: Any) -> Any:
        if not self._jit_compile or self._run_functions_eagerly:
            return call(self, *args, **kwargs)
        if trace.in_cluster():
            return call(functions.without_jit(self), *args, **kwargs)
        device = _ipu_in_scope()
        if device is None:
            return _call_on_host(call, self, args, kwargs)
        with ops.device(device):
            return functions.run(self, args, kwargs, device)

    function_class.__call__ = call_on_ipu


# What XLA says of a variable that is not on the device of the program.
_VARIABLE_ELSEWHERE = re.compile(
    r"Trying to access resource (?P<name>.+?)(/\d+)? \("
    r".*located in device \S*(?P<device>/device:IPU:\d+)"
)


def _call_on_host(call: Callable[..., Any], function: Any, args: Any, kwargs: Any) -> Any:
    """Calls a function for XLA, which says in its own way that it uses variables of an IPU."""
    try:
        return call(function, *args, **kwargs)
    except errors.InvalidArgumentError as error:
        found = _VARIABLE_ELSEWHERE.search(error.message)
        if found is None:
            raise
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The function {function._name!r}, which has jit_compile=True, uses the variable "
            f"{found['name']!r} on {found['device']}, but was called outside the scope of an IPU. "
            "Call it inside `with strategy.scope():`, or with strategy.run.",
        ) from error


def _ipu_in_scope() -> str | None:
    """Returns the IPU device that a device or strategy scope names, or None."""
    device = placement.current_device()
    if placement.is_ipu(device):
        return device
    from tensorflow_ipu import ipu_strategy

    strategy = ipu_strategy.current()
    return None if strategy is None else strategy.ipu_device


def _hook_datasets() -> None:
    dataset_class = dataset_ops.DatasetV2
    iterate = dataset_class.__iter__

    @functools.wraps(iterate)
    def iterate_on_ipu(self: dataset_ops.DatasetV2) -> Iterator[Any]:
        from tensorflow_ipu import ipu_strategy

        if not ipu_strategy.makes_iterators() or not context.executing_eagerly():
            return iterate(self)
        from tensorflow_ipu import ipu_infeed_queue

        return ipu_infeed_queue.make_owned_iterator(self)

    dataset_class.__iter__ = iterate_on_ipu


def _hook_control_flow() -> None:
    graph_class = control_flow_v2_func_graphs.ControlFlowFuncGraph
    initialise = graph_class.__init__

    @functools.wraps(initialise)
    def initialise_with_scopes(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        placement.inherit_attributes(self, self.outer_graph)

    graph_class.__init__ = initialise_with_scopes


@functools.cache
def follow_shards() -> None:
    """Makes gradient ops follow their forward op, once in a process.

    They get its IPU and its pipeline stage, whatever scopes are open where the gradients are asked
    for, and in a stage they are marked as its backward pass.
    """
    # Around all that `tf.gradients` makes for a forward op: sums, gradients, dependencies.
    colocate = gradients_util._maybe_colocate_with
    tape_gradient = backprop._gradient_function
    tape_aggregate = backprop._default_vspace.aggregate_fn

    @contextlib.contextmanager
    def colocate_following(op: ops.Operation, *args: Any) -> Iterator[None]:
        with colocate(op, *args), _following(op):
            yield

    @functools.wraps(tape_gradient)
    def tape_following(
        name: str, attributes: Any, num_inputs: int, inputs: Any, outputs: Any, *args: Any
    ) -> Any:
        forward = _first_op(outputs or ())
        if forward is None:
            return tape_gradient(name, attributes, num_inputs, inputs, outputs, *args)
        with _following(forward):
            return tape_gradient(name, attributes, num_inputs, inputs, outputs, *args)

    @functools.wraps(tape_aggregate)
    def tape_aggregate_following(gradients: Any) -> Any:
        made = _first_op(gradients) if len(gradients) > 1 else None
        if made is None:
            return tape_aggregate(gradients)
        # The tape does not say which forward op these are the gradients of.
        with _scopes_replaced(_attributes(made)):
            return tape_aggregate(gradients)

    gradients_util._maybe_colocate_with = colocate_following
    pywrap_tfe.TFE_Py_RegisterGradientFunction(tape_following)
    space = backprop._default_vspace._replace(aggregate_fn=tape_aggregate_following)
    pywrap_tfe.TFE_Py_RegisterVSpace(space)
    record.record_operation = _recording(record.record_operation)
    record.record_operation_backprop_only = _recording(record.record_operation_backprop_only)


def _recording(record_on_tapes: Callable[..., None]) -> Callable[..., None]:
    """Makes tapes call gradients that are closures (custom ones, those of functions) likewise."""

    @functools.wraps(record_on_tapes)
    def record_following(
        op_type: str,
        output_tensors: Any,
        input_tensors: Any,
        backward_function: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        forward = _first_op(output_tensors)
        following = backward_function

        if forward is not None:

            def following(*gradients: Any) -> Any:
                with _following(forward):
                    return backward_function(*gradients)

        record_on_tapes(op_type, output_tensors, input_tensors, following, *args, **kwargs)

    return record_following


def _first_op(values: Sequence[Any]) -> ops.Operation | None:
    """Returns the op of the first tensor that belongs to a graph."""
    tensors = (getattr(value, "values", value) for value in values)
    return next((tensor.op for tensor in tensors if ops.is_symbolic_tensor(tensor)), None)


def _following(op: ops.Operation) -> contextlib.AbstractContextManager[None]:
    """Gives the ops made inside what gradient ops take over from their forward op."""
    attributes = _attributes(op)
    if STAGE_ATTRIBUTE in attributes:
        attributes[PHASE_ATTRIBUTE] = attr_value_pb2.AttrValue(s=b"backward")
    else:
        attributes.pop(PHASE_ATTRIBUTE, None)
    return _scopes_replaced(attributes)


def _attributes(op: ops.Operation) -> dict[str, attr_value_pb2.AttrValue]:
    """Returns those of the attributes in `_FOLLOWED` that an op has."""
    # One attribute at a time: `op.node_def` copies all of an op, constants included.
    found = {}
    for name in _FOLLOWED:
        with contextlib.suppress(ValueError):
            value = op.get_attr(name)
            found[name] = (
                attr_value_pb2.AttrValue(s=value)
                if isinstance(value, bytes)
                else attr_value_pb2.AttrValue(i=value)
            )
    return found


@contextlib.contextmanager
def _scopes_replaced(attributes: dict[str, attr_value_pb2.AttrValue]) -> Iterator[None]:
    """Gives the ops made inside these attributes, and no others of `_FOLLOWED`."""
    scopes = ops.get_default_graph()._attr_scope_map
    outer = {name: scopes.pop(name) for name in _FOLLOWED if name in scopes}
    scopes.update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            scopes.pop(name, None)
        scopes.update(outer)
