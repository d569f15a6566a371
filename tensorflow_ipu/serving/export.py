"""Export of a model: its preprocessing, device and postprocessing steps, joined."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import current_scope, served, strategy_scope
from tensorflow_ipu.compiler import launch as launch_lib
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.serving import application, saved_model
from tensorflow_ipu.serving.arguments import Arguments, required, resolve
from tensorflow_ipu.serving.freezing import frozen
from tensorflow_ipu.serving.request import ExportRequest, output_names
from tensorflow_ipu.serving.steps import (
    StepCaptures,
    TracedStep,
    check_device_tensors,
    ipu_ops,
    traced,
)

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
    build: application.Builder,
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
    ordinal = strategy_scope.current_ordinal()
    name = re.sub(r"\W+", "_", name)
    needed = sorted(set().union(*map(ipu_ops, flow.steps)))
    if needed:
        logging.warning(
            "The exported model uses %s, which stock TensorFlow does not have: it can be loaded "
            "only where tensorflow_ipu is installed.",
            ", ".join(needed),
        )
    compiled = application.compiled(name, build, element, ordinal)
    captures = StepCaptures(_HOST)
    captures.of(flow.served)

    def predict_step(*tensors: Any) -> Any:
        return flow.served.call(tensors, captures.of(flow.served))

    def on_host(tensors: Sequence[Any]) -> Any:
        if not flow.has_host_steps:
            return predict_step(*tensors)
        with served.marked():
            return predict_step(*tensors)

    serve = flow.function(captures, on_host)
    predict = _with_parameters(predict_step, flow.predict.arguments)
    export_dir = str(request.export_dir)
    saved_model.write(export_dir, serve, predict, captures.owners, compiled)
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
    served.set_for_device(
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
