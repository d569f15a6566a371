"""Table of names of TensorFlow 1.15 and 2.6 that 2.15 lacks, besides `tensorflow.contrib`."""

from __future__ import annotations

from tensorflow_ipu.compat.rows import Gone, Method, Module, Name

_DATA = "tensorflow.data.experimental"
_STATISTICS = "tensorflow_ipu.compat.replacements.dataset_statistics"
_STATISTICS_WHY = "not in TensorFlow since 2.7"

NAMES = (
    *(
        Name(f"{_DATA}.{name}", f"{_STATISTICS}.{name}", _STATISTICS_WHY)
        for name in ("StatsAggregator", "StatsOptions", "bytes_produced_stats", "latency_stats")
    ),
    *(
        Name(
            f"tensorflow.python.eager.tape.{name}",
            f"tensorflow.python.eager.record.{name}",
            "not in this module since TensorFlow 2.12",
        )
        for name in ("could_possibly_record", "should_record_backprop", "stop_recording")
    ),
    Name(
        "tensorflow.python.pywrap_tensorflow.NewCheckpointReader",
        "tensorflow.compat.v1.train.NewCheckpointReader",
        "not in this module since TensorFlow 2.1",
    ),
)

MODULES = (
    Module(
        "tensorflow.python.distribute.distribution_strategy_context",
        ("tensorflow.python.distribute.distribute_lib",),
        "not in TensorFlow since 2.13",
    ),
    Module(
        "tensorflow.pywrap_tensorflow",
        ("tensorflow.python.pywrap_tensorflow",),
        "not in TensorFlow since 2.0",
    ),
    *(
        Module(
            f"tensorflow.python.data.experimental.ops.stats_{name}",
            (_STATISTICS,),
            _STATISTICS_WHY,
        )
        for name in ("aggregator", "ops", "options")
    ),
)

METHODS = (
    Method(
        "tensorflow.python.distribute.distribute_lib.StrategyBase",
        "experimental_run_v2",
        "tensorflow.python.distribute.distribute_lib.StrategyBase.run",
        "another name since TensorFlow 2.2",
    ),
    Method(
        "tensorflow.data.Options",
        "experimental_stats",
        f"{_STATISTICS}.experimental_stats",
        "datasets have no statistics since TensorFlow 2.7: leave it out",
    ),
)

GONE = (
    Gone(
        "tensorflow.examples",
        "The tutorials are not in TensorFlow since 1.15. tf.keras.datasets.mnist.load_data() "
        "gives the digits.",
    ),
    Gone(
        "tensorflow.keras.wrappers",
        "Not in Keras since 2.12: the package scikeras has these classes.",
    ),
)
