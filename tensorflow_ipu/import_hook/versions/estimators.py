"""Estimators on TensorFlow 2.16 and later, which lack them: `tf.estimator` is put back.

The package `tensorflow_estimator` 2.15 is Python code that runs with later releases, too, except
for a few imported modules of TensorFlow that these have dropped. This module has replacements of
them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

#: The package, and its requirement for pip.
PACKAGE = "tensorflow_estimator"
REQUIREMENT = "tensorflow_estimator~=2.15.0"

# Package of TensorFlow -> the API of `tensorflow_estimator` that is its attribute `estimator`.
_APIS = {"": "_v2", "compat.v1": "_v1", "compat.v2": "_v2"}

# Modules that TensorFlow dropped, whose names estimators for TPUs need.
_FOR_TPUS = ("session_support", "tpu_embedding", "tpu_embedding_gradient")


def provide(tensorflow: ModuleType) -> None:
    """Sets the attribute `estimator` of TensorFlow, unless it has one.

    Nothing of Estimators is imported before a program uses them.

    Args:
        tensorflow: the module, loaded.
    """
    if "estimator" in vars(tensorflow):
        return
    found = importlib.util.find_spec(PACKAGE)
    if found is None:
        vars(tensorflow).setdefault("__getattr__", _without_package)
        return
    folder = (found.submodule_search_locations or [""])[0]
    _stand_in_for_dropped_modules()
    _know_names_of_estimators()
    lazy_loader = importlib.import_module("tensorflow.python.util.lazy_loader")
    for below, api in _APIS.items():
        package: Any = tensorflow
        for part in filter(None, below.split(".")):
            package = getattr(package, part)
        path = f"{PACKAGE}.python.estimator.api.{api}.estimator"
        package.estimator = lazy_loader.LazyLoader("estimator", vars(package), path)
        package.__path__.append(os.path.join(folder, "python", "estimator", "api", api))


def require() -> None:
    """Checks that there are Estimators.

    Raises:
        ImportError: This TensorFlow has none, and the package is not installed.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise ImportError(_missing())


def _stand_in_for_dropped_modules() -> None:
    """Registers replacements of the dropped modules that the package imports."""
    training = importlib.import_module("tensorflow_ipu.import_hook.versions.estimator_training")
    sys.modules.setdefault("tensorflow.python.distribute.estimator_training", training)
    for name in _FOR_TPUS:
        full = f"tensorflow.python.tpu.{name}"
        sys.modules.setdefault(full, _ForTpus(full))


def _know_names_of_estimators() -> None:
    """Makes TensorFlow's decorators for public names accept the package's, as in 2.15."""
    export: Any = importlib.import_module("tensorflow.python.util.tf_export")
    vars(export).setdefault("ESTIMATOR_API_NAME", "estimator")
    for attributes, version in ((export.API_ATTRS, ""), (export.API_ATTRS_V1, "_v1")):
        kind = type(attributes["tensorflow"])
        names = (f"_estimator_api_{what}{version}" for what in ("names", "constants"))
        attributes.setdefault("estimator", kind(*names))


def _missing() -> str:
    """Returns the text of the error for a missing package."""
    release = importlib.import_module("tensorflow").__version__
    return (
        f"TensorFlow {release} has no Estimators: 2.15 was the last one with tf.estimator. Install "
        f'their package (pip install "{REQUIREMENT}"), with which ipu puts them back, or use Keras.'
    )


def _without_package(name: str) -> Any:
    """Raises for the attributes that TensorFlow lacks; the import system requests some, too."""
    bare = f"module 'tensorflow' has no attribute {name!r}"
    raise AttributeError(f"{bare}. {_missing()}" if name == "estimator" else bare)


class _ForTpus(ModuleType):
    """A module whose classes and functions cannot be used."""

    def __getattr__(self, name: str) -> Any:
        """Returns a class that refuses to be made, as others derive from it when imported."""
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise NotImplementedError(
                f"{self.__name__}.{name} was dropped from TensorFlow: estimators for TPUs need "
                "TensorFlow 2.15."
            )

        return type(name, (), {"__new__": refuse})
