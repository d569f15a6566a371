"""Patches of TensorFlow that the IPU needs; see also `gradient_hooks` and `call_hooks`.

A hook replaces a function of TensorFlow, or registers one with it, for the rest of the process. Its
docstring has the reason, and the cases in which it applies. In all other cases it calls the
replaced function with the same arguments: a program that uses no IPU behaves as with stock
TensorFlow.

The hooks are installed when a public module is imported with which programs use IPUs. That is
before the first configuration, because programs build graphs and functions before they configure.
`import tensorflow` and `from tensorflow.python import ipu` install nothing. Keras has hooks of
its own, which are there while the scope of a strategy or a pipeline stage is open
(`keras_layers/models/hooks.py`, `keras_layers/pipelining/stage_scope.py`).

`tests/compiler/hooks/test_tensorflow_hooks.py` lists all replaced functions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tensorflow.python.autograph.core import ag_ctx
from tensorflow.python.autograph.core import config as autograph_config
from tensorflow.python.autograph.impl import api as autograph
from tensorflow.python.client import session
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import dtypes, errors, func_graph, ops
from tensorflow.python.ops import (
    control_flow_util,
    control_flow_v2_func_graphs,
    gen_nn_ops,
    math_ops,
)

from tensorflow_ipu.compiler import cluster, current_scope, launch, requests, trace
from tensorflow_ipu.compiler.hooks import gradient_hooks, plan_hooks
from tensorflow_ipu.compiler.ir import program
from tensorflow_ipu.runtime import interpreter, native, system


def wrap_calls() -> None:
    """Wraps the calls of sessions and functions; see `tensorflow_hooks`.

    Ctrl-C ends them when they wait for a launch, and a launch in a fork is an error.

    With TensorFlow alone both would hang: a program goes on where the main thread waits for
    TensorFlow, and a fork has no threads of the engine. Without a launch, Ctrl-C comes at the end
    of the call, as in TensorFlow, and forks may call.
    """
    for owner, name, launches in (
        (session.BaseSession, "_call_tf_sessionrun", _session_launches),
        (session.BaseSession, "_call_tf_sessionprun", _session_launches),
        (context.Context, "call_function", _function_launches),
    ):
        call = _refused_in_forks(getattr(owner, name), launches)
        setattr(owner, name, interpreter.stopped_by_ctrl_c(call))


def _refused_in_forks(
    call: Callable[..., Any], launches: Callable[..., bool]
) -> Callable[..., Any]:
    """Wraps a call: it raises in a fork if it would launch a program."""

    @functools.wraps(call)
    def call_unless_forked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if system.is_fork() and launches(self, *args):
            system.use_process()
        return call(self, *args, **kwargs)

    return call_unless_forked


def _session_launches(session: session.BaseSession, *_: Any) -> bool:
    return cluster.launches(session.graph)


def _function_launches(of_context: context.Context, name: bytes, *_: Any) -> bool:
    """Returns whether a function or a callee launches a program."""
    found = [name.decode()]
    for function in found:  # grows meanwhile
        if of_context.has_function(function):
            for node in of_context.get_function_def(function).node_def:
                if node.op == "IpuLaunch":
                    return True
                called = [node.op, *program.called_functions(node)]
                found.extend(one for one in called if one not in found)
    return False


# --- All patches ---


@functools.cache
def install() -> None:
    """Installs the hooks, once in a process and for good."""
    _hook_autograph()
    _hook_functions()
    _hook_datasets()
    _hook_control_flow()
    _hook_batch_normalization()
    gradient_hooks.install()
    plan_hooks.install()
    wrap_calls()
    _hook_graphs()
    _hook_seeds()
    system.subscribe(_compile_placed_ops)


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a user's function converted by AutoGraph, where a function is traced with it."""
    result: Callable[..., Any] = autograph.tf_convert(function, ag_ctx.control_status_ctx())
    return result


def _hook_autograph() -> None:
    """Adds a rule for the functions of this package: AutoGraph leaves them alone.

    TensorFlow's own functions have such a rule. Functions of this package convert the user's
    functions that they call with `converted`. The rule does not apply to other functions.
    """
    package = __name__.split(".")[0]
    autograph_config.CONVERSION_RULES = (
        autograph_config.DoNotConvert(package),
        *autograph_config.CONVERSION_RULES,
    )


def _hook_functions() -> None:
    """Replaces the call of `tf.function` objects: those with `jit_compile=True` run on the IPU.

    TensorFlow would give them to XLA, which has no IPU backend. With an IPU device or an
    `IPUStrategy` in scope they are launched as Clusters; while a Cluster is traced, they become
    part of it. Elsewhere XLA gets them, and an error of XLA about a variable of an IPU is told in
    other words.
    """
    function_class = polymorphic_function.Function
    call = function_class.__call__

    @functools.wraps(call)
    def call_on_ipu(self: polymorphic_function.Function, *args: Any, **kwargs: Any) -> Any:
        if not self._jit_compile or self._run_functions_eagerly:
            return call(self, *args, **kwargs)
        if trace.in_cluster():
            return call(launch.without_jit(self), *args, **kwargs)
        device = _ipu_in_scope()
        if device is None:
            return _call_on_host(call, self, args, kwargs)
        with ops.device(device):
            return launch.launch_function(self, args, kwargs, device)

    function_class.__call__ = call_on_ipu


# XLA's error about a variable that is not on the device of the program.
_VARIABLE_ELSEWHERE = re.compile(
    r"Trying to access resource (?P<name>.+?)(/\d+)? \("
    r".*located in device \S*(?P<device>/device:IPU:\d+)"
)


def _call_on_host(call: Callable[..., Any], function: Any, args: Any, kwargs: Any) -> Any:
    """Calls a function for XLA, with an error of ours if it uses variables of an IPU."""
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
    device = current_scope.current_device()
    if current_scope.is_ipu(device):
        return device
    strategy = current_scope.current()
    return None if strategy is None else strategy.ipu_device


def _hook_datasets() -> None:
    """Replaces `iter(dataset)`: programs cannot read TensorFlow's iterators.

    In eager mode, in the scope of an `IPUStrategy` that makes iterators, it returns one of ours.
    """
    dataset_class = dataset_ops.DatasetV2
    iterate = dataset_class.__iter__

    @functools.wraps(iterate)
    def iterate_on_ipu(self: dataset_ops.DatasetV2) -> Iterator[Any]:
        make_iterator = current_scope.iterator_factory()
        if make_iterator is None or not context.executing_eagerly():
            return iterate(self)
        return make_iterator(self)

    dataset_class.__iter__ = iterate_on_ipu


def _hook_control_flow() -> None:
    """Makes the scopes around a branch or loop body hold in its graph.

    Replaces the constructor of such graphs. They would not see the scopes of `ipu.scopes`: shards,
    frontend attributes, outside compilation; nor the IPU that ops beside them are placed on.
    Without any of these nothing is added.
    """
    _make_loops_functional()
    graph_class = control_flow_v2_func_graphs.ControlFlowFuncGraph
    initialize = graph_class.__init__

    @functools.wraps(initialize)
    def initialize_with_scopes(self: Any, *args: Any, **kwargs: Any) -> None:
        initialize(self, *args, **kwargs)
        current_scope.inherit_attributes(self, self.outer_graph)
        current_scope.inherit_device(self, self.outer_graph)

    graph_class.__init__ = initialize_with_scopes


def _make_loops_functional() -> None:
    """Replaces TensorFlow's test for functional control flow: it holds on IPU devices.

    Loops and conditionals there are one op each, as in programs. As the many ops of TensorFlow 1
    they could not be part of a program that is made of placed ops. Elsewhere TensorFlow's own
    switch is the answer.
    """
    enabled = control_flow_util.EnableControlFlowV2

    @functools.wraps(enabled)
    def enabled_on_ipu(graph: ops.Graph) -> bool:
        inside_old_loop = graph._get_control_flow_context() is not None
        on_ipu = not inside_old_loop and current_scope.is_ipu(current_scope.current_device())
        return on_ipu or bool(enabled(graph))

    control_flow_util.EnableControlFlowV2 = enabled_on_ipu


def _compile_placed_ops(attached: system.System) -> None:
    """Makes the engine compile ops placed on IPUs, from the first configuration on."""
    if attached.config is not None:
        requests.ensure_registered()


def _hook_graphs() -> None:
    """Replaces the constructors of sessions and function graphs, to record the graphs.

    Ops that a session or function places on an IPU become programs, which find the lines of their
    ops in these graphs. They are remembered weakly; nothing about them changes.
    """
    _after_init(session.BaseSession, lambda made: cluster.note_graph(made.graph))
    _after_init(func_graph.FuncGraph, cluster.note_graph)


def _hook_seeds() -> None:
    """Makes `tf.random.set_seed` reseed IPUs too, so that programs after it repeat.

    For programs without an IPU nothing changes: only IPUs have the generators that are reseeded.
    """
    set_of_tensorflow = context.Context._set_global_seed

    @functools.wraps(set_of_tensorflow)
    def set_with_ipus(self: context.Context, seed: Any) -> None:
        set_of_tensorflow(self, seed)
        _reseed_ipus(seed)

    context.Context._set_global_seed = set_with_ipus
    _reseed_ipus(context.global_seed())


def _reseed_ipus(seed: Any) -> None:
    if seed is not None:
        native.reseed_devices(int(np.array(seed)))


def _after_init(owner: type, note: Callable[[Any], None]) -> None:
    initialize = owner.__init__  # type: ignore[misc]

    @functools.wraps(initialize)
    def initialize_and_note(self: Any, *args: Any, **kwargs: Any) -> None:
        initialize(self, *args, **kwargs)
        note(self)

    owner.__init__ = initialize_and_note  # type: ignore[misc]


def _hook_batch_normalization() -> None:
    """Makes the op of batch normalization take statistics of float16 on an IPU.

    TensorFlow's op takes scales, offsets and statistics of float32 only. In a program or the scope
    of an IPU, arguments of float16 and bfloat16 are cast. Other calls are unchanged.
    """
    normalize = gen_nn_ops.fused_batch_norm_v3

    @functools.wraps(normalize)
    def normalize_on_ipu(
        x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        dtype = getattr(scale, "dtype", dtypes.float32)
        short = dtype in (dtypes.float16, dtypes.bfloat16)
        if not short or not (trace.in_cluster() or _ipu_in_scope()):
            return normalize(x, scale, offset, mean, variance, *args, **kwargs)
        parts = [math_ops.cast(part, dtypes.float32) for part in (scale, offset, mean, variance)]
        found = normalize(x, *parts, *args, **kwargs)
        statistics = [math_ops.cast(part, dtype) for part in found[1:3]]
        return type(found)(found[0], *statistics, *found[3:])

    gen_nn_ops.fused_batch_norm_v3 = normalize_on_ipu
