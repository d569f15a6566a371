"""Export of Keras models as SavedModels: `model.export_for_ipu_serving`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import tensorflow as tf

from tensorflow_ipu.keras_layers import dimensions
from tensorflow_ipu.keras_layers.models import checks, fit_evaluate_predict
from tensorflow_ipu.keras_layers.pipelining import pipeline_programs as pipelined
from tensorflow_ipu.serving import exported_programs
from tensorflow_ipu.serving.export import ExportRequest, Flow, export
from tensorflow_ipu.serving.steps import Arguments

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


class Serving:
    """Mixin of models on the IPU: `export_for_ipu_serving`."""

    def export_for_ipu_serving(
        self,
        export_dir: Any,
        batch_size: Any = None,
        output_names: Any = None,
        preprocessing_step: Callable[..., Any] | None = None,
        preprocessing_step_signature: Any = None,
        postprocessing_step: Callable[..., Any] | None = None,
        postprocessing_step_signature: Any = None,
        purge_export_dir: bool = False,
    ) -> Any:
        """Exports the model as a SavedModel with the results of `predict`, one batch at a time.

        Its signature takes the inputs of the model by their names (or those of
        `preprocessing_step`) and runs on any TensorFlow. The compiled program beside it makes
        `steps_per_execution` steps, in stages if the model is pipelined. See
        `tensorflow_ipu.serving` for more.

        Args:
            export_dir: directory for the SavedModel, new or empty.
            batch_size: size of the batches of a request: a number, an integer scalar or a
                `Dimension`. None for what the model was built with.
            output_names: name or list of names of the outputs; for None those of a dict that the
                model returns, else `output_0`, `output_1`, ...
            preprocessing_step: runs on the host; what it returns are the inputs of the model.
            preprocessing_step_signature: list of `tf.TensorSpec`, unless the step is a
                `tf.function` with an `input_signature`.
            postprocessing_step: runs on the host, and takes what the model returns.
            postprocessing_step_signature: list of `tf.TensorSpec`; None for what the model returns.
            purge_export_dir: whether to delete what is in the directory before.

        Returns:
            A `tf.function` that does what the signature does, with the weights as they are now,
            and runs the model on the device.

        Raises:
            RuntimeError: If the model runs eagerly, or overrides what programs are made of.
            TypeError: If an argument is of the wrong type, or the device lacks the type of a
                tensor.
            ValueError: If the directory is not empty, dimensions are unknown, steps do not fit
                together, or the number of names is wrong.
            tf.errors.OpError: What compiling raises, such as for a number of steps that the
                schedule of a pipeline does not allow.
        """
        model = cast("IPUModel", self)  # of which this is a part
        request = ExportRequest(
            export_dir=export_dir,
            iterations=fit_evaluate_predict.per_execution(model),
            output_names=output_names,
            preprocessing_step=preprocessing_step,
            preprocessing_step_signature=preprocessing_step_signature,
            postprocessing_step=postprocessing_step,
            postprocessing_step_signature=postprocessing_step_signature,
            purge_export_dir=purge_export_dir,
        )
        return _export(model, request, batch_size)


def _export(model: IPUModel, request: ExportRequest, batch_size: Any) -> Any:
    request.check()
    checks.check(model, "predict")
    strategy = model.distribute_strategy
    with strategy.scope():
        inputs = _inputs(model, batch_size)
        checks.check_with_data(model, "predict", (inputs,))
        arguments = Arguments.of((inputs,))

        def predict_step(inputs: Any) -> Any:
            # In the context that programs have: inside a replica.
            return strategy.run(lambda: model.predict_step((inputs,)))

        flow = Flow(request, predict_step, lambda _: arguments)
        build = exported_programs.single_step(flow.predict, request.iterations)
        element: Any = arguments.specs
        if model._is_pipelined():
            build = _pipeline(model, request.iterations)
            element = _without_lists(arguments.structure)
        return export(request, flow, build, element, model.name)


def _pipeline(model: IPUModel, steps: int) -> exported_programs.Builder:
    """Returns the builder of the pipeline that `predict` runs."""

    def build(infeed: Any, outfeed: Any) -> None:
        strategy = model.distribute_strategy
        strategy.run(lambda: pipelined.predict(model, infeed, outfeed, steps)[0])

    return build


def _inputs(model: IPUModel, batch_size: Any) -> Any:
    """Returns specs of the model's inputs, with all dimensions.

    Raises:
        ValueError: If the model is not built, or a dimension is unknown.
    """
    batch_size = dimensions.static_size(batch_size)
    if batch_size is not None and (
        isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1
    ):
        raise ValueError(f"batch_size must be a positive integer. Received: {batch_size!r}")
    specs = model.save_spec(dynamic_batch=False)
    if specs is None:
        raise ValueError(
            f"The inputs of the model {model.name} are not known, because it has never been "
            "called. Call it, fit it, or give its first layer an input_shape."
        )
    inputs = tf.nest.map_structure(lambda spec: _with_batch(model, spec, batch_size), specs[0][0])
    if isinstance(inputs, dict):
        # Those who call the model know the keys, and not the names of the input layers.
        return {key: tf.TensorSpec(spec.shape, spec.dtype, key) for key, spec in inputs.items()}
    return inputs


def _with_batch(model: IPUModel, spec: tf.TensorSpec, batch_size: int | None) -> tf.TensorSpec:
    shape = spec.shape.as_list() if spec.shape.rank else []
    if shape and batch_size is not None:
        shape[0] = batch_size
    if not shape or None in shape:
        raise ValueError(
            f"The input {spec.name} of the model {model.name} has unknown dimensions: "
            f"{tf.TensorShape(shape) if shape else spec.shape}. A compiled program needs to know "
            "all of them: pass batch_size, and build the model with all others."
        )
    return tf.TensorSpec(shape, spec.dtype, spec.name)


def _without_lists(structure: Any) -> Any:
    """Returns a nest with tuples for lists, which a dataset would take for tensors."""
    if isinstance(structure, (list, tuple)):
        return tuple(_without_lists(value) for value in structure)
    if isinstance(structure, dict):
        return {key: _without_lists(value) for key, value in structure.items()}
    return structure
