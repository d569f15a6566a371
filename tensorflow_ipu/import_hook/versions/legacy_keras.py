"""Selection of the Keras behind `tf.keras`: Keras 2 in programs that import ipu.

TensorFlow 2.16 and later have Keras 3 as `tf.keras`, unless the environment variable
TF_USE_LEGACY_KERAS says otherwise. They import Keras at its first use. So the import of ipu can
still decide, unless the program has used Keras by then.
"""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tensorflow_ipu.import_hook.versions import releases

#: TensorFlow's environment variable, and the values of it that mean Keras 2.
VARIABLE = "TF_USE_LEGACY_KERAS"
TRUE = ("true", "True", "1")

# The first TensorFlow whose Keras is Keras 3.
_SPLIT = (2, 16)
# The first whose Keras 2 draws seeds as Python 3.12 wants it.
_WHOLE_SEEDS = (2, 19)

# Where TensorFlow's packages look for modules of Keras: below this folder of a package of Keras.
_KERAS_3 = os.path.join(os.sep, "keras", "api", "")
_KERAS_2 = os.path.join(os.sep, "tf_keras", "api", "")


def select(tensorflow: ModuleType) -> None:
    """Makes `tf.keras` Keras 2, unless the user said otherwise or Keras 3 is loaded as that.

    The user says it with the environment variable. It is set here, as processes that the program
    starts need the same Keras.

    Args:
        tensorflow: the module, loaded.

    Raises:
        ImportError: Keras 2 is not installed.
    """
    if release(tensorflow) < _SPLIT:
        return
    setting = os.environ.get(VARIABLE)
    if setting is None and not is_loaded(tensorflow):
        keras = _keras_2(tensorflow)
        os.environ[VARIABLE] = "1"
        _lead_to(os.path.dirname(os.path.dirname(str(keras.__file__))))
    elif setting in TRUE:
        _keras_2(tensorflow)


def release(tensorflow: ModuleType) -> tuple[int, int]:
    """Returns the release of a TensorFlow, such as `(2, 18)`."""
    major, minor = tensorflow.__version__.split(".")[:2]
    return int(major), int(minor)


def requirement(tensorflow: ModuleType) -> str:
    """Returns pip's requirement of Keras 2 for a TensorFlow, such as `tf_keras~=2.18.0`."""
    major, minor = release(tensorflow)
    return f"tf_keras~={major}.{minor}.0"


def is_loaded(tensorflow: ModuleType) -> bool:
    """Returns whether the program has loaded `tf.keras`, of any version."""
    # Looking at any attribute of the module would load it. It lies here until then.
    lazy_loader = importlib.import_module("tensorflow.python.util.lazy_loader")
    return not isinstance(vars(tensorflow).get("keras"), lazy_loader.KerasLazyLoader)


def package() -> str:
    """Returns the package that has Keras 2, for a TensorFlow that need not be loaded.

    Returns:
        `keras`, or `tf_keras` if TensorFlow 2.16 or later is installed.
    """
    found = importlib.util.find_spec("tensorflow")
    folder = os.path.dirname(found.origin or "") if found is not None else ""
    version = releases.installed_version(Path(folder))
    numbers = tuple(int(part) for part in version.split(".")[:2]) if version else ()
    return "tf_keras" if numbers >= _SPLIT else "keras"


def why_keras_3() -> str:
    """Returns the reason for Keras 3 in a program that imports ipu, with advice."""
    setting = os.environ.get(VARIABLE)
    if setting is None or setting in TRUE:
        return (
            "the program used it before it imported ipu. Let `from tensorflow.python import ipu` "
            "stand before the first use of tf.keras and the first import of tensorflow.keras, or "
            f"set the environment variable {VARIABLE}=1 for the program."
        )
    return f"the environment variable {VARIABLE} is {setting!r}. Leave it unset, or set it to 1."


def is_chosen(tensorflow: ModuleType) -> bool:
    """Returns whether `tf.keras` is Keras 2, or will be when it is first used."""
    if release(tensorflow) < _SPLIT:
        return True
    if is_loaded(tensorflow):
        return bool(tensorflow.keras.Model.__module__.startswith("tf_keras."))
    return os.environ.get(VARIABLE) in TRUE


def _keras_2(tensorflow: ModuleType) -> ModuleType:
    """Imports Keras 2, with the classes that TensorFlow has to know to load saved models."""
    try:
        importlib.import_module("tf_keras")
        importlib.import_module("tf_keras.src.optimizers")
    except ModuleNotFoundError as error:
        if error.name != "tf_keras":
            raise
        raise ImportError(
            f"Keras on the IPU is Keras 2, and TensorFlow {tensorflow.__version__} needs the "
            "package tf_keras for it, which is not installed. Install it: "
            f'pip install "{requirement(tensorflow)}". To use ipu without it, set the environment '
            f"variable {VARIABLE}=0: then tf.keras stays Keras 3."
        ) from None
    if release(tensorflow) < _WHOLE_SEEDS:
        _mend_seeds(importlib.import_module("tf_keras.src.backend"))
    return sys.modules["tf_keras"]


def _mend_seeds(backend: ModuleType) -> None:
    """Makes Keras 2 draw seeds after `set_random_seed` on Python 3.12.

    It asks for numbers up to 1e9, and the generator of Python wants an int there. The numbers are
    those that it gives in older versions of Python.

    Args:
        backend: the module of Keras 2 that draws them.
    """

    def create_seed(self: Any, user_specified_seed: int | None) -> int:
        if user_specified_seed is not None:
            return user_specified_seed
        generator = getattr(backend._SEED_GENERATOR, "generator", None) or random
        return int(generator.randint(1, int(1e9)))

    backend.RandomGenerator._create_seed = create_seed


def _lead_to(site: str) -> None:
    """Makes statements such as `import tensorflow.keras.layers` find Keras 2, as TensorFlow does.

    Args:
        site: the folder that has the package `tf_keras`.
    """
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__dict__", {}).get("__path__")
        if name.partition(".")[0] == "tensorflow" and isinstance(path, list):
            path[:] = [
                site + _KERAS_2 + entry.rpartition(_KERAS_3)[2] if _KERAS_3 in entry else entry
                for entry in path
            ]
