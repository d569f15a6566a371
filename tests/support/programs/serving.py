"""Running exported models in processes of their own: with the plugin, and without this package."""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2

# Calls the signature of each model with its inputs, writes the outputs, and says where it is.
_CALL = """
import pathlib, sys
import numpy as np
import tensorflow as tf

for export_dir in map(pathlib.Path, sys.argv[1:]):
    signature = tf.saved_model.load(export_dir).signatures["serving_default"]
    inputs = np.load(export_dir.with_suffix(".inputs.npz"))
    results = signature(**{name: tf.constant(value) for name, value in inputs.items()})
    outputs = {name: value.numpy() for name, value in results.items()}
    np.savez(export_dir.with_suffix(".outputs.npz"), **outputs)
print(*sorted({device.device_type for device in tf.config.list_logical_devices()}))
print(any(name.startswith("tensorflow_ipu") for name in sys.modules))
"""


def call_signatures(
    run_python: Any, inputs: Mapping[Path, Mapping[str, Any]], bare: Path | None = None
) -> dict[Path, dict[str, np.ndarray]]:
    """Loads exported models in a new process and calls their signatures.

    Args:
        run_python: The fixture.
        inputs: Inputs by name, for the folder of each model.
        bare: Folder for links to the installed packages without ours; None for all packages.

    Returns:
        The outputs by name, for each model.
    """
    for export_dir, values in inputs.items():
        np.savez(export_dir.with_suffix(".inputs.npz"), **values)
    options: tuple[str, ...] = ()
    environment = {}
    if bare is not None:
        _link_packages(bare)
        # Without `site`, packages are found only here, and TensorFlow finds no plugins.
        options, environment = ("-S",), {"PYTHONPATH": str(bare)}
    process = run_python(_CALL, *options, args=list(map(str, inputs)), env=environment)
    expected = ["CPU", "False"] if bare is not None else ["CPU IPU", "True"]
    assert process.stdout.splitlines()[-2:] == expected
    outputs = {}
    for export_dir in inputs:
        with np.load(export_dir.with_suffix(".outputs.npz"), allow_pickle=True) as found:
            outputs[export_dir] = dict(found)
    return outputs


def _link_packages(folder: Path) -> None:
    """Fills a folder with links to all installed packages but this one and its plugin."""
    folder.mkdir(exist_ok=True)
    for package in Path(sysconfig.get_path("platlib")).iterdir():
        ours = "tensorflow_ipu" in package.name or package.name == "tensorflow-plugins"
        link = folder / package.name
        if not ours and package.suffix != ".pth" and not link.exists():
            link.symlink_to(package)


def nodes(export_dir: Path) -> list[node_def_pb2.NodeDef]:
    """Returns all nodes in a SavedModel, including those in its functions."""
    model = saved_model_pb2.SavedModel.FromString((export_dir / "saved_model.pb").read_bytes())
    found = []
    for graph in (meta_graph.graph_def for meta_graph in model.meta_graphs):
        found.extend(graph.node)
        for function in graph.library.function:
            found.extend(function.node_def)
    return found


def assert_stock(export_dir: Path) -> None:
    """Checks that a SavedModel needs neither operations of ours, nor an IPU, nor XLA."""
    for node in nodes(export_dir):
        assert not node.op.startswith("Ipu")
        assert "IPU" not in node.device
        assert "_XlaMustCompile" not in node.attr


def applications(export_dir: Path) -> list[Path]:
    """Returns the compiled programs among the assets."""
    return sorted((export_dir / "assets").glob("application_*.popef"))
