"""Names of older releases that this package lacks, with their replacements.

Read only when a name was not found, for the text of the error.
"""

from __future__ import annotations

from tensorflow_ipu.import_hook import tables

_IPU = tables.PUBLIC
_OPS = f"{tables.POPLAR}.ops"
_DRIVER = f"{tables.POPLAR}.driver"

_KERAS_CLASS = (
    "a Keras class of SDK 2.2 and before. Make an ordinary {stock} inside `with "
    "ipu.ipu_strategy.IPUStrategy().scope():`; its fit, evaluate and predict run on the IPU. "
    "For gradient accumulation call "
    "model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=...)"
)
_PIPELINE_CLASS = (
    "a Keras class of SDK 2.4 and before. Make an ordinary {stock} inside `with "
    "ipu.ipu_strategy.IPUStrategy().scope():`, put {how}, and call model.set_pipelining_options("
    "gradient_accumulation_steps_per_replica=..., pipeline_schedule=..., device_mapping=...) "
    "before model.compile"
)
_STAGES = "each part of the model in a scope `with ipu.keras.PipelineStage(k):`"
_SEQUENTIAL_STAGES = "its layers in stages with model.set_pipeline_stage_assignment([0, 0, 1, ...])"
_GRADIENTS = (
    "where the original registered gradients. They are registered together with the operations "
    "here: leave the import out"
)
_METRICS = "no module of any release: stock tf.keras.metrics run on the IPU"
_TESTS = (
    "helpers of the original's own tests, which no release documented. Reports and counters of a "
    "program are in ipu.profiler, and the fixture ipu_budget checks them in tests"
)

# Full name -> its meaning and its replacement. A name stands for all names below it.
_NAMES = {
    f"{_IPU}.keras.Model": _KERAS_CLASS.format(stock="tf.keras.Model"),
    f"{_IPU}.keras.Sequential": _KERAS_CLASS.format(stock="tf.keras.Sequential"),
    f"{_IPU}.keras.PipelineModel": _PIPELINE_CLASS.format(stock="tf.keras.Model", how=_STAGES),
    f"{_IPU}.keras.PipelineSequential": _PIPELINE_CLASS.format(
        stock="tf.keras.Sequential", how=_SEQUENTIAL_STAGES
    ),
    f"{_IPU}.keras.SequentialPipelineModel": _PIPELINE_CLASS.format(
        stock="tf.keras.Sequential", how=_SEQUENTIAL_STAGES
    ),
    f"{_IPU}.keras.models": (
        "where some releases had Keras classes of their own. Make ordinary tf.keras models inside "
        "`with ipu.ipu_strategy.IPUStrategy().scope():`"
    ),
    f"{_IPU}.keras.metrics": _METRICS,
    f"{_IPU}.ops.experimental": (
        "where SDK 2.0 to 2.2 kept operations that were not final, such as gfloat casts. 8-bit "
        "floats are in ipu.f8_ops, and operations of your own in ipu.custom_ops"
    ),
    f"{_IPU}.ops.nn_ops_grad": _GRADIENTS,
    f"{_IPU}.ops.rnn_ops_grad": _GRADIENTS,
    f"{_IPU}.ops.embedding_ops_grad": _GRADIENTS,
    f"{_IPU}.ops.functional_ops_grad": _GRADIENTS,
    f"{_IPU}.ops.pipelining_ops_grad": _GRADIENTS,
    f"{_IPU}.ops.op_util": "internal: it has no replacement, as nothing of it was documented",
    f"{_IPU}.test_utils": _TESTS,
    f"{_IPU}.tests": _TESTS,
    f"{tables.POPLAR}.tests": _TESTS,
    f"{_OPS}.gen_sendrecv_ops": (
        "raw ops that moved tensors between host and device, internal to the original. Use "
        "ipu.ipu_infeed_queue, ipu.ipu_outfeed_queue or ipu.scopes.outside_compilation_scope"
    ),
    f"{_OPS}.gen_pop_datastream_ops": (
        "raw ops of feeds, internal to the original. Use ipu.ipu_infeed_queue, "
        "ipu.ipu_outfeed_queue and ipu.embedding_ops.create_host_embedding"
    ),
    f"{_OPS}.gen_functional_ops": (
        "raw ops that called functions, internal to the original. Use ipu.functional_ops"
    ),
    f"{_OPS}.gen_popfloat_ops": "raw ops of gfloat casts of SDK 2.2 and before. Use ipu.f8_ops",
    f"{_OPS}.gen_popdist_ops": (
        "raw ops of host collectives, internal to the original. Use ipu.distributed"
    ),
    f"{_DRIVER}.backend_config_pb2": "messages internal to the original's compiler",
    f"{_DRIVER}.option_flag_pb2": (
        "messages of library options. Set them with the poplar_options of an ipu.config.IPUConfig"
    ),
    f"{_DRIVER}.threestate_pb2": (
        "values internal to the original. Pass None, True or False where it had three states"
    ),
    f"{tables.ADDONS}.keras.metrics": _METRICS,
    f"{tables.ADDONS}.metrics": _METRICS,
    f"{tables.POPDIST}.poptorch": "for PyTorch, which this package does not run",
    f"{tables.POPDIST}.popart": "for PopART, which this package does not run",
}


def explain(name: str) -> str | None:
    """Returns the meaning of a name of an older release, for the message of an error.

    Args:
        name: a full name, as programs for the original have it.

    Returns:
        The message; None if nothing is known of the name.
    """
    for known, meaning in _NAMES.items():
        if f"{name}.".startswith(f"{known}."):
            return f"tensorflow_ipu has no {known}: it was {meaning}."
    for package, table in (
        (tables.ADDONS, tables.ADDONS_MODULES),
        (tables.POPDIST, tables.POPDIST_MODULES),
    ):
        if name.startswith(f"{package}."):
            modules = ", ".join(f"{package}.{below}".rstrip(".") for below in table)
            return f"tensorflow_ipu has no {name}. Of {package} it has: {modules}."
    return None
