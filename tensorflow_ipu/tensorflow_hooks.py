"""The places where TensorFlow itself has to know of IPUs. All of them are here.

* `tf.function` objects with `jit_compile=True` go to XLA, which has no IPU backend. Called with an
  IPU device in scope, they are launched as Clusters; inside a Cluster they are inlined.
* `iter(dataset)` in the scope of an `IPUStrategy` gives an iterator that programs on the device
  can read.
* Branches and loop bodies are graphs of their own, which would not see the scopes of `ipu.scopes`
  around them: shards, frontend attributes, outside compilation.

None of this changes anything for code that has no IPU device in scope.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from tensorflow.python import pywrap_tfe
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import backprop, context
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_v2_func_graphs, gradients_util

from tensorflow_ipu import placement
from tensorflow_ipu.compiler import functions, trace
from tensorflow_ipu.compiler.program import SHARDING_ATTRIBUTE


@functools.cache
def install() -> None:
    """Installs the hooks, once in a process."""
    _hook_functions()
    _hook_datasets()
    _hook_control_flow()


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
            return call(self, *args, **kwargs)
        with ops.device(device):
            return functions.run(self, args, kwargs)

    function_class.__call__ = call_on_ipu


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

        strategy = ipu_strategy.current()
        if strategy is None or not strategy.enable_dataset_iterators:
            return iterate(self)
        if not context.executing_eagerly():
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
    """Makes gradient ops follow the shard of their forward op, once in a process."""
    compile_gradient = gradients_util._MaybeCompile
    tape_gradient = backprop._gradient_function

    @functools.wraps(compile_gradient)
    def on_shard(scope: str, op: ops.Operation, *args: Any) -> Any:
        with _shard_of(op):
            return compile_gradient(scope, op, *args)

    @functools.wraps(tape_gradient)
    def on_shard_in_tape(
        name: str, attributes: Any, num_inputs: int, inputs: Any, outputs: Any, *args: Any
    ) -> Any:
        forward = next((t.op for t in outputs or () if ops.is_symbolic_tensor(t)), None)
        if forward is None:
            return tape_gradient(name, attributes, num_inputs, inputs, outputs, *args)
        with _shard_of(forward):
            return tape_gradient(name, attributes, num_inputs, inputs, outputs, *args)

    gradients_util._MaybeCompile = on_shard
    pywrap_tfe.TFE_Py_RegisterGradientFunction(on_shard_in_tape)


@contextlib.contextmanager
def _shard_of(op: ops.Operation) -> Iterator[None]:
    """Puts ops made inside on the IPU of `op`, or on none if it names none."""
    scopes = ops.get_default_graph()._attr_scope_map
    outer = scopes.pop(SHARDING_ATTRIBUTE, None)
    if SHARDING_ATTRIBUTE in op.node_def.attr:
        scopes[SHARDING_ATTRIBUTE] = op.node_def.attr[SHARDING_ATTRIBUTE]
    try:
        yield
    finally:
        scopes.pop(SHARDING_ATTRIBUTE, None)
        if outer is not None:
            scopes[SHARDING_ATTRIBUTE] = outer
