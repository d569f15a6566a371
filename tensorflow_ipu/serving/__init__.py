"""Export of models for serving: the public module `ipu.serving`.

Each function writes a SavedModel whose signature `serving_default` takes the tensors of one
mini-batch and returns a dict of outputs. It has TensorFlow's own operations and the weights at the
export, so any TensorFlow can load and run it, with this package or without:

    outputs = tf.saved_model.load(export_dir).signatures["serving_default"](x=images)

Called like that, it runs on the host. A strategy runs it on its device:

    with strategy.scope():
        outputs = strategy.run(model.signatures["serving_default"], kwargs={"x": images})

Variables become constants with their values at the export, wherever they were made. A step that
writes variables keeps them, and so does one with more than a GiB of them: load such a model in the
scope of the strategy. The steps before and after the model stay on the host.

Among the assets is `application_<uuid>.popef`: the compiled program, with all `iterations` of its
loop or pipeline and the weights. `ipu.embedded_runtime` runs it, in a process without this model.
`ipu.application_compile_op` makes such programs of functions, without a SavedModel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.serving import exported_programs
from tensorflow_ipu.serving.export import ExportRequest, Flow, export, predict_arguments
from tensorflow_ipu.serving.exported_programs import ExportedStages

__all__ = ["export_keras", "export_pipeline", "export_single_step"]

tensorflow_hooks.install()


def export_single_step(
    predict_step: Callable[..., Any],
    export_dir: Any,
    iterations: int,
    predict_step_signature: Any = None,
    input_dataset: Any = None,
    output_names: Any = None,
    preprocessing_step: Callable[..., Any] | None = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Callable[..., Any] | None = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
    inputs: Sequence[Any] | None = None,
) -> Any:
    """Exports a function that runs on one IPU.

    Its inputs are described by exactly one of: the `input_signature` of a `tf.function`,
    `predict_step_signature`, `input_dataset`. With a `preprocessing_step`, these sources (and
    `preprocessing_step_signature`) describe its inputs, and the function takes its results.

    Args:
        predict_step: takes tensors and returns a tensor, or a nest of them.
        export_dir: directory for the SavedModel, new or empty.
        iterations: Mini-batches in one execution of the compiled program.
        predict_step_signature: list of `tf.TensorSpec` with all dimensions, one for each argument.
        input_dataset: a `tf.data.Dataset` whose elements are such arguments: a tuple of positional
            ones, or a dict of those with names.
        output_names: name or list of names of the outputs; for None the keys of a returned dict,
            else `output_0`, `output_1`, ...
        preprocessing_step: runs on the host, before `predict_step`.
        preprocessing_step_signature: list of `tf.TensorSpec` of any type and shape.
        postprocessing_step: runs on the host, after `predict_step`.
        postprocessing_step_signature: list of `tf.TensorSpec`; for None, the results of
            `predict_step`.
        purge_export_dir: whether to empty the directory first.
        inputs: further arguments of `predict_step`, before those of a request: the same in each.

    Returns:
        A `tf.function` equivalent to the signature, with the present weights, which runs
        `predict_step` as a program on the device. It returns a list of the outputs, also if there
        is one; a dict if the last step returns a dict.

    Raises:
        RuntimeError: In graph mode.
        TypeError: If an argument is of the wrong type, or the device lacks the type of a tensor.
        ValueError: If the directory is not empty, the signature does not come from one source or
            has unknown dimensions, steps do not fit together, or the number of names is wrong.
        tf.errors.OpError: The errors of compilation. Nothing has been written then.
    """
    request = ExportRequest(
        export_dir=export_dir,
        iterations=iterations,
        predict_step_signature=predict_step_signature,
        input_dataset=input_dataset,
        output_names=output_names,
        preprocessing_step=preprocessing_step,
        preprocessing_step_signature=preprocessing_step_signature,
        postprocessing_step=postprocessing_step,
        postprocessing_step_signature=postprocessing_step_signature,
        purge_export_dir=purge_export_dir,
    )
    request.check()
    if not callable(predict_step):
        raise TypeError(f"predict_step must be a function. Received: {predict_step!r}")
    given = tuple(inputs or ())
    flow = Flow(
        request,
        functools.partial(predict_step, *given) if given else predict_step,
        predict_arguments(request, predict_step, len(given)),
    )
    build = exported_programs.single_step(flow.predict, iterations)
    return export(request, flow, build, flow.predict.arguments.specs, "predict_step", named=False)


def export_pipeline(
    computational_stages: Sequence[Any],
    export_dir: Any,
    iterations: int,
    inputs: Sequence[Any] | None = None,
    device_mapping: Sequence[Any] | None = None,
    pipeline_schedule: Any = None,
    poplar_options: Sequence[Any] | None = None,
    name: str | None = None,
    predict_step_signature: Any = None,
    input_dataset: Any = None,
    output_names: Any = None,
    preprocessing_step: Callable[..., Any] | None = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Callable[..., Any] | None = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
) -> Any:
    """Exports a pipeline over several IPUs; see `export_single_step` for further details.

    Args:
        computational_stages: a function for each stage, as for `pipelining_ops.pipeline`. The first
            has the signature.
        export_dir: directory for the SavedModel, new or empty.
        iterations: Mini-batches in one execution of the pipeline.
        inputs: further arguments of the first stage, before those of a request.
        device_mapping: the IPU of each stage; stage `i` is on IPU `i` when None.
        pipeline_schedule: a `PipelineSchedule`; Grouped when None.
        poplar_options: a `PipelineStageOptions` for each stage.
        name: name for the pipeline.
        predict_step_signature: list of `tf.TensorSpec`, one for each argument of the first stage.
        input_dataset: elements are arguments of the first stage.
        output_names: names of the outputs.
        preprocessing_step: runs on the host, before the first stage.
        preprocessing_step_signature: list of `tf.TensorSpec`.
        postprocessing_step: runs on the host, after the last stage.
        postprocessing_step_signature: list of `tf.TensorSpec`.
        purge_export_dir: whether to empty the directory first.

    Returns:
        As `export_single_step`; each call runs one mini-batch through the stages on their IPUs.

    Raises:
        RuntimeError: In graph mode.
        TypeError: As for `export_single_step` and `pipelining_ops.pipeline`.
        ValueError: As for these two.
    """
    request = ExportRequest(
        export_dir=export_dir,
        iterations=iterations,
        predict_step_signature=predict_step_signature,
        input_dataset=input_dataset,
        output_names=output_names,
        preprocessing_step=preprocessing_step,
        preprocessing_step_signature=preprocessing_step_signature,
        postprocessing_step=postprocessing_step,
        postprocessing_step_signature=postprocessing_step_signature,
        purge_export_dir=purge_export_dir,
    )
    request.check()
    options = {
        "pipeline_schedule": pipeline_schedule,
        "forward_propagation_stages_poplar_options": poplar_options,
        "name": name,
    }
    stages = ExportedStages(computational_stages, tuple(inputs or ()), device_mapping, options)
    find = predict_arguments(request, stages.first, len(stages.inputs))
    flow = Flow(request, stages.call, find)
    build = stages.builder(flow.predict.arguments, iterations)
    return export(request, flow, build, flow.predict.arguments.specs, name or "pipeline")


def export_keras(
    model: Any,
    export_dir: Any,
    batch_size: Any = None,
    output_names: Any = None,
    preprocessing_step: Callable[..., Any] | None = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Callable[..., Any] | None = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
) -> Any:
    """Exports a Keras model: the same as its method `export_for_ipu_serving`.

    Args:
        model: a model that was made in the scope of an `IPUStrategy`.
        export_dir: directory for the SavedModel, new or empty.
        batch_size: size of the batches of a request: a number, an integer scalar or a `Dimension`.
            None for the batch size that the model was built with.
        output_names: names of the outputs.
        preprocessing_step: runs on the host, before the model.
        preprocessing_step_signature: list of `tf.TensorSpec`.
        postprocessing_step: runs on the host, after the model.
        postprocessing_step_signature: list of `tf.TensorSpec`.
        purge_export_dir: whether to empty the directory first.

    Returns:
        As `export_single_step`.

    Raises:
        RuntimeError: In graph mode.
        TypeError: As for `export_single_step`.
        ValueError: If the model was made elsewhere, and as for `export_for_ipu_serving`.
    """
    if not hasattr(model, "export_for_ipu_serving"):
        raise ValueError(
            f"The model {model!r} was not created inside an IPU strategy. export_keras needs one "
            "that was made in the scope of an IPUStrategy with enable_keras_extensions=True: make "
            "it inside `with strategy.scope():` and load its weights there."
        )
    return model.export_for_ipu_serving(
        export_dir,
        batch_size=batch_size,
        output_names=output_names,
        preprocessing_step=preprocessing_step,
        preprocessing_step_signature=preprocessing_step_signature,
        postprocessing_step=postprocessing_step,
        postprocessing_step_signature=postprocessing_step_signature,
        purge_export_dir=purge_export_dir,
    )
