"""Where each public module is: the table of names, and the finder that imports by them.

Every Python interpreter of an environment with tensorflow_ipu runs this file when it starts. So it
imports nothing that the interpreter has not loaded by then, and TensorFlow least of all.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Optional

PACKAGE = "tensorflow_ipu"
PUBLIC = "tensorflow.python.ipu"
PLUGIN = "tensorflow.compiler.plugin"
POPLAR = PLUGIN + ".poplar"

# Subpackages whose folders are in the root of the repository, beside that of `tensorflow_ipu`.
FOLDERS = ("configs", "estimators", "keras_layers", "ops")

# Public module, below `tensorflow.python.ipu` and `tensorflow_ipu` -> module of `tensorflow_ipu`.
MODULES = {
    "all_to_all_op": "ops.all_to_all_op",
    "autoshard": "autoshard",
    "config": "config",
    "control_flow_ops": "ops.control_flow_ops",
    "cross_replica_ops": "ops.cross_replica_ops",
    "cross_replica_optimizer": "optimizers.cross_replica_optimizer",
    "custom_ops": "ops.custom_ops",
    "data": "data",
    "data.ops": "data.ops",
    "data.ops.dataset_ops": "data.ops.dataset_ops",
    "dataset_benchmark": "dataset_benchmark",
    "dataset_extractor": "dataset_extractor",
    "embedding_ops": "ops.embedding_ops",
    "f8_ops": "ops.f8_ops",
    "functional_ops": "ops.functional_ops",
    "grad_util_ops": "ops.grad_util_ops",
    "gradient_accumulation": "gradient_accumulation",
    "gradient_accumulation_optimizer": "optimizers.gradient_accumulation_optimizer",
    "image_ops": "ops.image_ops",
    "internal_ops": "ops.internal_ops",
    "ipu_compiler": "ipu_compiler",
    "ipu_infeed_queue": "ipu_infeed_queue",
    "ipu_outfeed_queue": "ipu_outfeed_queue",
    "ipu_strategy": "ipu_strategy",
    "keras": "keras",
    "keras.layers": "keras_layers.layers",
    "loops": "loops",
    "map_gradient_optimizer": "optimizers.map_gradient_optimizer",
    "math_ops": "ops.math_ops",
    "nn_ops": "ops.nn_ops",
    "normalization_ops": "ops.normalization_ops",
    "ops": "ops",
    "ops.all_to_all_op": "ops.all_to_all_op",
    "ops.control_flow_ops": "ops.control_flow_ops",
    "ops.cross_replica_ops": "ops.cross_replica_ops",
    "ops.custom_ops": "ops.custom_ops",
    "ops.embedding_ops": "ops.embedding_ops",
    "ops.f8_ops": "ops.f8_ops",
    "ops.functional_ops": "ops.functional_ops",
    "ops.grad_util_ops": "ops.grad_util_ops",
    "ops.image_ops": "ops.image_ops",
    "ops.internal_ops": "ops.internal_ops",
    "ops.math_ops": "ops.math_ops",
    "ops.nn_ops": "ops.nn_ops",
    "ops.normalization_ops": "ops.normalization_ops",
    "ops.pipelining_ops": "ops.pipelining_ops",
    "ops.rand_ops": "ops.rand_ops",
    "ops.reduce_scatter_op": "ops.reduce_scatter_op",
    "ops.replication_ops": "ops.replication_ops",
    "ops.rnn_ops": "ops.rnn_ops",
    "ops.slicing_ops": "ops.slicing_ops",
    "ops.statistics_ops": "ops.statistics_ops",
    "ops.summary_ops": "ops.summary_ops",
    "ops.vertex_edsl": "ops.vertex_edsl",
    "ops.within_replica_ops": "ops.within_replica_ops",
    "optimizers": "optimizers",
    "optimizers.cross_replica_optimizer": "optimizers.cross_replica_optimizer",
    "optimizers.gradient_accumulation_optimizer": "optimizers.gradient_accumulation_optimizer",
    "optimizers.map_gradient_optimizer": "optimizers.map_gradient_optimizer",
    "optimizers.sharded_optimizer": "optimizers.sharded_optimizer",
    "pipelining_ops": "ops.pipelining_ops",
    "profiler": "profiler",
    "rand_ops": "ops.rand_ops",
    "reduce_scatter_op": "ops.reduce_scatter_op",
    "replication_ops": "ops.replication_ops",
    "rnn_ops": "ops.rnn_ops",
    "scopes": "scopes",
    "sharded_optimizer": "optimizers.sharded_optimizer",
    "sharding": "sharding",
    "slicing_ops": "ops.slicing_ops",
    "statistics_ops": "ops.statistics_ops",
    "summary_ops": "ops.summary_ops",
    "utils": "utils",
    "vertex_edsl": "ops.vertex_edsl",
    "within_replica_ops": "ops.within_replica_ops",
}

# Public function of the package itself -> module of `tensorflow_ipu` that has it.
FUNCTIONS = {
    "function": "ops.functional_ops",
    "outlined_function": "ops.functional_ops",
}

# Public module below `tensorflow.compiler.plugin.poplar` -> module of `tensorflow_ipu`.
POPLAR_MODULES = {
    "driver.config_pb2": "configs.proto.ipu_options_pb2",
    "driver.trace_pb2": "configs.proto.trace_pb2",
    "ops.gen_ipu_ops": "ops.gen_ipu_ops",
}

# Documented names that this release does not have -> what brings them. Whoever adds one moves its
# row to `MODULES`.
PLANNED = {
    # F4
    **dict.fromkeys(("keras.optimizers", "serving"), "Keras on the IPU"),
    # F5
    **dict.fromkeys(
        ("ipu_estimator", "ipu_pipeline_estimator", "ipu_run_config", "ipu_session_run_hooks"),
        "Estimators",
    ),
    # After F6
    **dict.fromkeys(
        (
            "distributed",
            "distributed.host_collective_ops",
            "horovod",
            "horovod.ipu_horovod_strategy",
            "horovod.ipu_multi_replica_strategy",
            "ipu_multi_worker_strategy",
        ),
        "training on several hosts",
    ),
}

# Packages above `POPLAR_MODULES` that no file stands for.
_EMPTY_PACKAGES = (PLUGIN, POPLAR, POPLAR + ".driver", POPLAR + ".ops")


class _EmptyPackage:
    """Loads a package that has nothing of its own."""

    @staticmethod
    def create_module(spec: "ModuleSpec") -> None:
        """Leaves making the module to the import system."""

    @staticmethod
    def exec_module(module: "ModuleType") -> None:
        """Leaves the module empty."""


class _Alias:
    """Loads one more name for a module."""

    def __init__(self, module: str) -> None:
        """Remembers the name that the module has already."""
        self.module = module

    @staticmethod
    def create_module(spec: "ModuleSpec") -> None:
        """Leaves making a module to the import system; `exec_module` throws it away."""

    def exec_module(self, module: "ModuleType") -> None:
        """Puts the real module in the place of the new one.

        The import system then hands that out, with its own `__name__` and `__spec__`.
        """
        import importlib

        sys.modules[module.__name__] = importlib.import_module(self.module)


class Finder:
    """Finds the modules of the tables, under all their names."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: "Optional[Sequence[str]]" = None, target: "Any" = None
    ) -> "Optional[ModuleSpec]":
        """Finds a module; the import system calls this.

        Args:
            fullname: name of the module.
            path: where its package is.
            target: module to be reloaded, if any.

        Returns:
            How to load it, or None when other finders know.

        Raises:
            ModuleNotFoundError: there is no public module of this name.
        """
        if not fullname.startswith((PACKAGE + ".", PUBLIC, PLUGIN)):
            return None  # quick: every import of every program comes here
        if fullname in _EMPTY_PACKAGES:
            return _spec(fullname, _EmptyPackage)
        if fullname == PUBLIC:
            return _spec(fullname, _Alias(PACKAGE))
        root, name = _split(fullname)
        if root is None:
            return None
        table = POPLAR_MODULES if root == POPLAR else MODULES
        if name in table and f"{PACKAGE}.{table[name]}" != fullname:
            return _spec(fullname, _Alias(f"{PACKAGE}.{table[name]}"))
        if root == PACKAGE and name in FOLDERS:
            return _find_folder(fullname, path or ())
        if root != POPLAR and name in PLANNED:
            # Without the attribute `name` of the error: the statement `from package import module`
            # takes an error with it for its own, and words it anew without the reason.
            raise ModuleNotFoundError(_planned(fullname, name))
        if root == PACKAGE:
            return None
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def _split(fullname: str) -> "tuple[Optional[str], str]":
    """Splits a name into what the tables leave out, and what is in them."""
    for root in (PACKAGE, PUBLIC, POPLAR):
        if fullname.startswith(root + "."):
            return root, fullname[len(root) + 1 :]
    return None, fullname


def _spec(fullname: str, loader: "Any") -> "ModuleSpec":
    from importlib.machinery import ModuleSpec

    return ModuleSpec(fullname, loader, is_package=loader is _EmptyPackage)


def _find_folder(fullname: str, path: "Sequence[str]") -> "Optional[ModuleSpec]":
    """Finds a subpackage of `FOLDERS`: inside the package, or in a checkout beside it."""
    from importlib.machinery import PathFinder

    beside = [os.path.dirname(folder) for folder in path]
    return PathFinder.find_spec(fullname, path) or PathFinder.find_spec(fullname, beside)


def _planned(fullname: str, name: str) -> str:
    return (
        f"{fullname} is documented, but not in this release yet: it comes with {PLANNED[name]}. "
        "See CHANGELOG.md for what each release of tensorflow_ipu has."
    )


def lazy_modules(package: str) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Makes the `__getattr__` and the `__dir__` that import public modules when first used.

    Args:
        package: name of a package of `tensorflow_ipu`, or that itself.

    Returns:
        The two functions, for the package to assign.
    """
    prefix = (package + ".")[len(PACKAGE) + 1 :]

    def get_attribute(name: str) -> "Any":
        if prefix + name in MODULES:
            import importlib

            return importlib.import_module(f"{package}.{name}")
        if prefix + name in FUNCTIONS:
            import importlib

            module = importlib.import_module(f"{PACKAGE}.{FUNCTIONS[prefix + name]}")
            return getattr(module, name)
        if prefix + name in PLANNED:
            raise AttributeError(_planned(f"{package}.{name}", prefix + name))
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> "list[str]":
        public = (*MODULES, *FUNCTIONS)
        below = {name[len(prefix) :] for name in public if name.startswith(prefix)}
        own = vars(sys.modules[package])
        return sorted({*own, *(name.split(".")[0] for name in below)})

    return get_attribute, names


def install() -> None:
    """Makes the public names importable in this process."""
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)
