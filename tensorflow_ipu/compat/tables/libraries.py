"""Tables of the names that Python, NumPy and TensorFlow dropped, without tensorflow.contrib."""

from __future__ import annotations

from importlib import metadata

from tensorflow_ipu.compat.rows import Gone, Keyword, Method, Module, Name

# --- Python 3.6 to 3.11 ---

_OURS = "tensorflow_ipu.compat.replacements.python"

_ABCS = """Awaitable Coroutine AsyncIterable AsyncIterator AsyncGenerator Hashable Iterable Iterator
    Generator Reversible Sized Container Callable Collection Set MutableSet Mapping MutableMapping
    MappingView KeysView ItemsView ValuesView Sequence MutableSequence ByteString""".split()

PYTHON_NAMES = (
    *(
        Name(f"collections.{name}", f"collections.abc.{name}", "not in collections since 3.10")
        for name in _ABCS
    ),
    Name("inspect.getargspec", f"{_OURS}.getargspec", "not in Python since 3.11"),
    Name("asyncio.coroutine", f"{_OURS}.coroutine", "not in Python since 3.11"),
    Name("time.clock", "time.perf_counter", "not in Python since 3.8"),
    Name("fractions.gcd", "math.gcd", "not in Python since 3.9"),
    Name("base64.encodestring", "base64.encodebytes", "not in Python since 3.9"),
    Name("base64.decodestring", "base64.decodebytes", "not in Python since 3.9"),
)

KEYWORDS = (
    *(
        Keyword(f"json.{name}", "encoding", "without effect, and not taken since Python 3.9")
        for name in ("load", "loads")
    ),
    *(
        Keyword(f"asyncio.{name}", "loop", "not taken since Python 3.10")
        for name in ("gather", "shield", "sleep", "wait", "wait_for")
    ),
)

PYTHON_METHODS = (
    Method(
        "threading.Thread",
        "isAlive",
        "threading.Thread.is_alive",
        "another name since Python 3.9",
    ),
)


# --- NumPy up to 2.0 ---

# The rows depend on it: some names are back since 2.0, and others are gone.
_IS_2 = int(metadata.version("numpy").partition(".")[0]) >= 2

_ALIAS = "not in NumPy since 1.24: it was Python's own type"

_DROPPED = "not in NumPy since 2.0"

# Aliases of NumPy's names, which 2.0 dropped.
_OTHER_NAMES = {
    **dict.fromkeys(("Inf", "Infinity", "PINF", "infty"), "inf"),
    **{"NaN": "nan", "float_": "float64", "complex_": "complex128", "cfloat": "complex128"},
    **{"string_": "bytes_", "unicode_": "str_", "longfloat": "longdouble"},
    **{"singlecomplex": "complex64", "longcomplex": "clongdouble", "clongfloat": "clongdouble"},
    **{"product": "prod", "cumproduct": "cumprod", "alltrue": "all", "sometrue": "any"},
    **{"round_": "round", "mat": "asmatrix"},
}

NUMPY_NAMES = (
    *(
        Name(f"numpy.{name}", f"builtins.{name}", _ALIAS)
        for name in ("complex", "float", "int", "object", "str")
    ),
    Name("numpy.unicode", "builtins.str", _ALIAS),
    *(
        (Name(f"numpy.{old}", f"numpy.{new}", _DROPPED) for old, new in _OTHER_NAMES.items())
        if _IS_2
        else (
            Name("numpy.bool", "builtins.bool", _ALIAS),
            Name("numpy.long", "builtins.int", _ALIAS),
        )
    ),
    Name("numpy.alen", "builtins.len", "not in NumPy since 1.23"),
    Name(
        "numpy.asscalar",
        "tensorflow_ipu.compat.replacements.python.asscalar",
        "not in NumPy since 1.23: it is the method item()",
    ),
    Name("numpy.loads", "pickle.loads", "not in NumPy since 1.23"),
    Name("numpy.typeDict", "numpy.sctypeDict", "not in NumPy since 1.24"),
)


# --- TensorFlow 1.15 and 2.6 ---

_DATA = "tensorflow.data.experimental"

_STATISTICS = "tensorflow_ipu.compat.replacements.datasets"

_STATISTICS_WHY = "not in TensorFlow since 2.7"

TENSORFLOW_NAMES = (
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

TENSORFLOW_METHODS = (
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
