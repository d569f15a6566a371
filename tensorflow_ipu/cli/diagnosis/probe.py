"""The program that `tensorflow-ipu doctor` starts: imports TensorFlow, and reports each step.

It prints a line at the start of a step and one with its result. So the parent process knows the
last step if the probe is killed. Options in the environment apply to the check of options only: a
check of the installation must not write reports or caches.

It is given to the interpreter as text, and imports nothing of the package before TensorFlow:
programs that do so have other errors.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

#: Prefix of the lines for the parent process; libraries write other lines.
MARK = "tensorflow_ipu.probe "

# Variables that change how a program runs, by how they begin.
_OF_PROGRAMS = ("TF_POPLAR_", "POPLAR_", "TENSORFLOW_IPU_", "POPDIST_", "XLA_FLAGS")

# TensorFlow loads all libraries in folders of this name.
_PLUGINS = "tensorflow-plugins"


def main(folder: str, with_plugins: bool = True) -> None:
    """Runs all steps up to the first that fails.

    Args:
        folder: that has the package, also where it is not installed.
        with_plugins: whether TensorFlow may load plugins; without, there is only the first step.
    """
    # Whether the interpreter has read tensorflow_ipu.pth when it started.
    _say(step="start", facts={"started": "tensorflow_ipu" in sys.modules})
    sys.path.append(folder)
    if not with_plugins:
        _hide_plugins()
    for name, step in STEPS.items() if with_plugins else [("tensorflow", _tensorflow)]:
        _say(step=name)
        try:
            _say(step=name, facts=step())
        except Exception as error:
            _say(step=name, error=f"{type(error).__name__}: {error}")
            if name != "options":
                return


def _say(**line: Any) -> None:
    print(f"\n{MARK}{json.dumps(line)}", flush=True)


def _hide_plugins() -> None:
    """Makes TensorFlow find no folder of plugins in this process, nor our checks of it."""
    sys.meta_path[:] = [each for each in sys.meta_path if not _is_ours(each)]
    exists = os.path.exists

    def exists_besides_plugins(path: Any) -> bool:
        return os.path.basename(path) != _PLUGINS and exists(path)

    os.path.exists = exists_besides_plugins


def _is_ours(finder: Any) -> bool:
    """Returns whether a finder of modules is of this package."""
    return str(getattr(finder, "__module__", "")).startswith("tensorflow_ipu.")


def _tensorflow() -> dict[str, Any]:
    """Imports TensorFlow."""
    tf = importlib.import_module("tensorflow")
    return {"version": tf.__version__, "file": tf.__file__}


def _devices() -> dict[str, Any]:
    """Counts the devices that the plugin has registered."""
    tf = importlib.import_module("tensorflow")
    return {"devices": [device.name for device in tf.config.list_logical_devices("IPU")]}


def _options() -> dict[str, Any]:
    """Checks library options in the environment, whose errors are TensorFlow's; then drops them."""
    options = importlib.import_module("tensorflow_ipu.configs.poplar_options")
    names = [name for name in os.environ if name.startswith(_OF_PROGRAMS)]
    try:
        options.check_environment()
    finally:
        for name in names:
            del os.environ[name]
    return {"variables": [name for name in names if name.endswith("_OPTIONS")]}


def _library() -> dict[str, Any]:
    """Loads the native library from Python, which compares its version with TensorFlow's."""
    library = importlib.import_module("tensorflow_ipu.runtime.native")
    return {"built_for": library.load().tfipu_tensorflow_version().decode()}


def _import() -> dict[str, Any]:
    """Imports the public name, as programs do."""
    return {"file": importlib.import_module("tensorflow.python.ipu").__file__}


def _keras() -> dict[str, Any]:
    """Returns package and version of `tf.keras` after the import of ipu."""
    tf = importlib.import_module("tensorflow")
    package = tf.keras.Model.__module__.partition(".")[0]
    return {"package": package, "version": importlib.import_module(package).__version__}


def _run() -> dict[str, Any]:
    """Runs a program on one IPU."""
    tf = importlib.import_module("tensorflow")
    ipu = importlib.import_module("tensorflow.python.ipu")
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        product = tf.function(lambda x: tf.matmul(x, x), jit_compile=True, autograph=False)
        result = strategy.run(product, [tf.constant([[1.0, 2.0], [3.0, 4.0]])])
    return {"result": result.numpy().tolist()}


#: All steps, in their order.
STEPS: Mapping[str, Callable[[], dict[str, Any]]] = MappingProxyType(
    {
        "tensorflow": _tensorflow,
        "devices": _devices,
        "options": _options,
        "library": _library,
        "import": _import,
        "keras": _keras,
        "run": _run,
    }
)

#: Result of the program of the last step.
PRODUCT = [[7.0, 10.0], [15.0, 22.0]]

if __name__ == "__main__":
    main(sys.argv[1], "--without-plugins" not in sys.argv[2:])
