"""Runs programs of this folder in one process.

Run with `python -m tests.end_to_end.programs.runner NAME...`.

Programs of TensorFlow 1 switch TensorFlow 2 off for the whole process, so they cannot run in that
of the tests; nor can programs with other flags. Each gets a graph of its own. The last line that is
printed says as JSON what each returned, or its error.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.runtime import system

# With TensorFlow 2 switched off.
GRAPH_PROGRAMS = (
    "resnet_graph",
    "bert_graph",
    "recommender",
    "policy_gradient",
    "mcmc",
    "sales_forecast",
)
EAGER_PROGRAMS = ("resnet_keras", "bert_keras", "graph_network", "autoencoder")


def _as_lists(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_as_lists(element) for element in value]
    return np.asarray(value).tolist()


def run(name: str) -> dict[str, Any]:
    """Runs a program with its default options.

    Args:
        name: name of its module.

    Returns:
        `result`: what `main` returned, as lists; or `error`: the traceback.
    """
    tf.compat.v1.reset_default_graph()
    try:
        program = importlib.import_module(f"tests.end_to_end.programs.{name}")
        return {"result": _as_lists(program.main([]))}
    except Exception:  # noqa: BLE001 - the others are run all the same
        return {"error": traceback.format_exc()}
    finally:
        system.reset_ipu_configuration()


def main() -> None:
    """Runs the programs that the command line names."""
    names = sys.argv[1:]
    if set(names) <= set(GRAPH_PROGRAMS):
        tf.compat.v1.disable_v2_behavior()
    print(json.dumps({name: run(name) for name in names}))


if __name__ == "__main__":
    main()
