"""Export of a model: the user's request, its joined steps, and the files of the SavedModel."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import logging
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from tensorflow.python.framework import ops
from tensorflow.python.lib.io import file_io
from tensorflow.python.saved_model import constants, fingerprinting_utils, save, signature_constants
from tensorflow.python.trackable import asset, autotrackable
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import current_scope, launch
from tensorflow_ipu.compiler import launch as launch_lib
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.serving import exported_programs
from tensorflow_ipu.serving.application import Application, save_application
from tensorflow_ipu.serving.steps import (
    Arguments,
    StepCaptures,
    TracedStep,
    check_device_tensors,
    frozen,
    ipu_ops,
    required,
    resolve,
    traced,
)
from tensorflow_ipu.util import private_files

# --- Files ---

APPLICATION_SUFFIX = ".popef"


def check_directory(export_dir: str, purge: bool) -> None:
    """Raises if an export would overwrite files of a directory.

    Args:
        export_dir: the target directory.
        purge: whether its files may be deleted.

    Raises:
        ValueError: If it is not empty, or is a file.
    """
    if not file_io.file_exists_v2(export_dir):
        return
    if not file_io.is_directory_v2(export_dir):
        raise ValueError(f'"{export_dir}" is not a directory. Pass a new or empty one.')
    if file_io.list_directory_v2(export_dir) and not purge:
        raise ValueError(
            f'Directory "{export_dir}" is not empty. Pass another one, or purge_export_dir=True '
            "to delete its content."
        )


def write_saved_model(
    export_dir: str,
    serve: Function,
    predict: Function,
    owners: Sequence[Any],
    compiled: Application,
) -> None:
    """Writes an exported model, and removes earlier content of the directory.

    Args:
        export_dir: the target directory.
        serve: the signature `serving_default`: named tensors in, a dict of tensors out.
        predict: the part of it that is for the device.
        owners: variables and other objects that both use.
        compiled: the compiled model.
    """
    _empty(export_dir)
    module = autotrackable.AutoTrackable()
    module.state = list(owners)
    module.predict_step = predict
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"application_{uuid.uuid4()}{APPLICATION_SUFFIX}")
        save_application(compiled, path)
        with ops.device("/device:CPU:0"):
            module.application = asset.Asset(str(path))
            signatures = {
                signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: serve.get_concrete_function()
            }
            save.save(module, export_dir, signatures)
    _forget_ipus(export_dir)
    if "://" not in export_dir:
        private_files.restrict(export_dir)
    logging.info("Exported a model for serving to %s", export_dir)


def _empty(export_dir: str) -> None:
    """Empties a directory, if it exists."""
    if not file_io.file_exists_v2(export_dir):
        return
    for name in file_io.list_directory_v2(export_dir):
        path = file_io.join(export_dir, name)
        if file_io.is_directory_v2(path):
            file_io.delete_recursively_v2(path)
        else:
            file_io.delete_file_v2(path)


def _forget_ipus(export_dir: str) -> None:
    """Removes the names of IPU devices from a SavedModel, for servers that have none."""
    path = file_io.join(export_dir, constants.SAVED_MODEL_FILENAME_PB)
    with file_io.FileIO(path, "rb") as saved:
        model = saved_model_pb2.SavedModel.FromString(saved.read())
    for graph in (meta_graph.graph_def for meta_graph in model.meta_graphs):
        _clear(graph.node)
        for function in graph.library.function:
            _clear(function.node_def)
    file_io.atomic_write_string_to_file(path, model.SerializeToString(deterministic=True))
    fingerprinting_utils.write_fingerprint(export_dir)


def _clear(nodes: Sequence[node_def_pb2.NodeDef]) -> None:
    for node in nodes:
        if current_scope.is_ipu(node.device):
            node.device = ""


# --- Request ---


@dataclasses.dataclass(frozen=True)
class ExportRequest:
    """The arguments that all export functions take; see `serving.export_single_step`."""

    export_dir: Any
    iterations: Any
    predict_step_signature: Any = None
    input_dataset: Any = None
    output_names: Any = None
    preprocessing_step: Any = None
    preprocessing_step_signature: Any = None
    postprocessing_step: Any = None
    postprocessing_step_signature: Any = None
    purge_export_dir: bool = False

    def check(self) -> None:
        """Checks the arguments that need no tracing.

        Raises:
            RuntimeError: In graph mode.
            TypeError: If a step is not a function.
            ValueError: If the directory is not empty, or `iterations` not positive.
        """
        if not ops.executing_eagerly_outside_functions():
            raise RuntimeError(
                "Models are exported for serving in eager mode only, as in TensorFlow 2. Call "
                "tf.compat.v1.enable_v2_behavior() at the start of the program."
            )
        check_directory(str(self.export_dir), bool(self.purge_export_dir))
        count = self.iterations
        try:
            COUNT.whole("iterations", count)
        except ValueError as error:
            raise ValueError(f"iterations must be a positive integer. {error}") from None
        for name in ("preprocessing_step", "postprocessing_step"):
            step = getattr(self, name)
            if step is not None and not callable(step):
                raise TypeError(f"{name} must be a function. Received: {step!r}")
            if step is None and getattr(self, f"{name}_signature") is not None:
                raise ValueError(f"{name}_signature was given without a {name}. Pass both.")


def output_names(results: Any, names: Any) -> list[str]:
    """Returns the names of the outputs of the signature.

    Args:
        results: the results of the last step.
        names: the argument of the user.

    Raises:
        TypeError: If names are no strings.
        ValueError: If there are more or fewer names than outputs, or two are equal.
    """
    count = len(nest.flatten(results))
    if names is None:
        if isinstance(results, Mapping) and len(results) == count:
            return [str(key) for key in sorted(results)]
        return [f"output_{index}" for index in range(count)]
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"output_names must be a string or a list of them. Received: {names!r}")
    if len(names) != count or len(set(names)) != count:
        raise ValueError(
            f"output_names must have a different name for each of the {count} outputs. "
            f"Received {len(names)}: {list(names)}"
        )
    return list(names)


# --- Export ---

_HOST = "/device:CPU:0"


class Flow:
    """The steps of a model, from the tensors of a request to the tensors of the answer.

    Attributes:
        predict: The part that runs on the device.
        served: The same for the SavedModel, with variables as constants.
    """

    def __init__(
        self,
        request: ExportRequest,
        predict: Callable[..., Any],
        arguments: Callable[[TracedStep | None], Arguments],
    ) -> None:
        """Traces all steps.

        Args:
            request: the arguments of the export.
            predict: the part for the device.
            arguments: returns its arguments, given the step before, or None.

        Raises:
            TypeError: If the device lacks the type of a tensor.
            ValueError: If steps do not fit together, or shapes are unknown.
        """
        self._before = _preprocessing(request)
        found = arguments(self._before)
        check_device_tensors("input", found.specs)
        self.predict = traced("predict_step", predict, found)
        self.served = frozen(self.predict)
        check_device_tensors("output", nest.flatten(self.served.results))
        self._after = _postprocessing(request, self.served)
        self._names = output_names(self.steps[-1].results, request.output_names)
        for first, second in zip(self.steps, self.steps[1:]):
            second.arguments.flatten(first.results, f"{first.name} and {second.name}")

    @property
    def steps(self) -> list[TracedStep]:
        """The steps in order."""
        return [step for step in (self._before, self.served, self._after) if step is not None]

    @property
    def has_host_steps(self) -> bool:
        """Whether there are steps before or after the part for the device."""
        return len(self.steps) > 1

    def function(
        self, captures: StepCaptures, predict: Callable[..., Any], named: bool = True
    ) -> Any:
        """Returns the whole flow as a `tf.function`.

        Args:
            captures: copies for the steps on the host.
            predict: runs the part for the device: flat tensors in, its results out.
            named: whether it returns a dict of outputs by name, not a list of them. Where the last
                step returns a dict it always does.
        """
        named = named or isinstance(self.steps[-1].results, dict)
        for step in (self._before, self._after):
            if step is not None:
                captures.of(step)  # the values they have now

        def serve(*tensors: Any) -> Any:
            values: Any = list(tensors)
            if self._before is not None:
                values = self._before.call(values, captures.of(self._before))
                values = self.predict.arguments.flatten(values, "the steps")
            values = predict(values)
            if self._after is not None:
                values = self._after.arguments.flatten(values, "the steps")
                values = self._after.call(values, captures.of(self._after))
            outputs = nest.flatten(values)
            return dict(zip(self._names, outputs)) if named else outputs

        return _with_parameters(serve, self.steps[0].arguments)


def export(
    request: ExportRequest,
    flow: Flow,
    build: exported_programs.Builder,
    element: Any,
    name: str,
    named: bool = True,
) -> Any:
    """Compiles a program and writes the SavedModel.

    Args:
        request: the arguments of the export.
        flow: the traced steps.
        build: builds the program, with all iterations.
        element: nest of `tf.TensorSpec` of an element of its infeed.
        name: name of the program.
        named: see `Flow.function`, for the returned function. The signature returns a dict.

    Returns:
        A `tf.function` equivalent to the signature, which runs on the device.
    """
    ordinal = current_scope.current_ordinal()
    name = re.sub(r"\W+", "_", name)
    needed = sorted(set().union(*map(ipu_ops, flow.steps)))
    if needed:
        logging.warning(
            "The exported model uses %s, which stock TensorFlow does not have: it can be loaded "
            "only where tensorflow_ipu is installed.",
            ", ".join(needed),
        )
    compiled = exported_programs.compiled(name, build, element, ordinal)
    captures = StepCaptures(_HOST)
    captures.of(flow.served)

    def predict_step(*tensors: Any) -> Any:
        return flow.served.call(tensors, captures.of(flow.served))

    def on_host(tensors: Sequence[Any]) -> Any:
        if not flow.has_host_steps:
            return predict_step(*tensors)
        with launch.marked():
            return predict_step(*tensors)

    serve = flow.function(captures, on_host)
    predict = _with_parameters(predict_step, flow.predict.arguments)
    export_dir = str(request.export_dir)
    write_saved_model(export_dir, serve, predict, captures.owners, compiled)
    return _on_devices(flow, ordinal, name, named)


def _on_devices(flow: Flow, ordinal: int, name: str, named: bool) -> Any:
    """Returns the function that runs the flow with the device.

    A strategy runs it on its own device, not as part of another program.
    """
    step = flow.predict
    cluster = Cluster.from_graph(step.concrete.graph, name, owner=step.concrete)
    of_hosts = StepCaptures(_HOST)
    of_hosts.of(step)  # the values they have now

    @functools.cache
    def on_device(device: str) -> Any:
        captures = of_hosts.on(device)

        def predict(tensors: Sequence[Any]) -> Any:
            launched: Any = launch_lib.launch(cluster, [*tensors, *captures.of(step)], device)
            return nest.pack_sequence_as(step.results, list(launched))

        return flow.function(of_hosts, predict, named)

    function = on_device(f"/device:IPU:{ordinal}")
    launch.set_for_device(
        function, lambda device: on_device(f"/device:IPU:{current_scope.ordinal(device)}")
    )
    return function


def _preprocessing(request: ExportRequest) -> TracedStep | None:
    step, role = request.preprocessing_step, "preprocessing_step"
    if step is None:
        return None
    signature = request.preprocessing_step_signature
    found = resolve(role, step, signature, request.input_dataset)
    return traced(role, step, required(role, found))


def _postprocessing(request: ExportRequest, predict: TracedStep) -> TracedStep | None:
    step, role = request.postprocessing_step, "postprocessing_step"
    if step is None:
        return None
    found = resolve(role, step, request.postprocessing_step_signature)
    return traced(role, step, found or Arguments.of(predict.results))


def predict_arguments(
    request: ExportRequest, predict: Callable[..., Any], skip: int
) -> Callable[[TracedStep | None], Arguments]:
    """Returns a function that finds the arguments of a user's predict step; see `Flow`.

    Args:
        request: the arguments of the export.
        predict: the step, or the first stage.
        skip: number of its first arguments that are given otherwise.
    """

    def find(before: TracedStep | None) -> Arguments:
        role = "predict_step"
        dataset = request.input_dataset if before is None else None
        found = resolve(role, predict, request.predict_step_signature, dataset, skip)
        if found is None and before is not None:
            return Arguments.of(before.results)
        return required(role, found)

    return find


def _with_parameters(function: Callable[..., Any], arguments: Arguments) -> Any:
    """Returns a `tf.function` whose parameters have the names of the tensors they take."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind) for name in arguments.names]
    )
    return polymorphic_function.function(function, input_signature=arguments.specs, autograph=False)
