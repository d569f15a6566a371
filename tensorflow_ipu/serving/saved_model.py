"""Files of an exported model: the SavedModel with the compiled program as an asset."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import logging
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from tensorflow.python.framework import ops
from tensorflow.python.lib.io import file_io
from tensorflow.python.saved_model import (
    constants,
    fingerprinting_utils,
    save,
    signature_constants,
)
from tensorflow.python.trackable import asset, autotrackable

from tensorflow_ipu.applications import file
from tensorflow_ipu.applications.application import Application
from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.util import private_files

APPLICATION_SUFFIX = ".popef"


def check_directory(export_dir: str, purge: bool) -> None:
    """Raises if an export would overwrite files of a directory.

    Args:
        export_dir: the target directory.
        purge: whether its files may be deleted.

    Raises:
        ValueError: If it is not empty, or is a file.
    """
    if not file_io.file_exists_v2(export_dir):
        return
    if not file_io.is_directory_v2(export_dir):
        raise ValueError(f'"{export_dir}" is not a directory. Pass a new or empty one.')
    if file_io.list_directory_v2(export_dir) and not purge:
        raise ValueError(
            f'Directory "{export_dir}" is not empty. Pass another one, or purge_export_dir=True '
            "to delete its content."
        )


def write(
    export_dir: str,
    serve: Function,
    predict: Function,
    owners: Sequence[Any],
    application: Application,
) -> None:
    """Writes an exported model, and removes earlier content of the directory.

    Args:
        export_dir: the target directory.
        serve: the signature `serving_default`: named tensors in, a dict of tensors out.
        predict: the part of it that is for the device.
        owners: variables and other objects that both use.
        application: the compiled model.
    """
    _empty(export_dir)
    module = autotrackable.AutoTrackable()
    module.state = list(owners)
    module.predict_step = predict
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"application_{uuid.uuid4()}{APPLICATION_SUFFIX}")
        file.save(application, path)
        with ops.device("/device:CPU:0"):
            module.application = asset.Asset(str(path))
            signatures = {
                signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: serve.get_concrete_function()
            }
            save.save(module, export_dir, signatures)
    _forget_ipus(export_dir)
    if "://" not in export_dir:
        private_files.restrict(export_dir)
    logging.info("Exported a model for serving to %s", export_dir)


def _empty(export_dir: str) -> None:
    """Empties a directory, if it exists."""
    if not file_io.file_exists_v2(export_dir):
        return
    for name in file_io.list_directory_v2(export_dir):
        path = file_io.join(export_dir, name)
        if file_io.is_directory_v2(path):
            file_io.delete_recursively_v2(path)
        else:
            file_io.delete_file_v2(path)


def _forget_ipus(export_dir: str) -> None:
    """Removes the names of IPU devices from a SavedModel, for servers that have none."""
    path = file_io.join(export_dir, constants.SAVED_MODEL_FILENAME_PB)
    with file_io.FileIO(path, "rb") as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    for graph in (meta_graph.graph_def for meta_graph in model.meta_graphs):
        _clear(graph.node)
        for function in graph.library.function:
            _clear(function.node_def)
    file_io.atomic_write_string_to_file(path, model.SerializeToString(deterministic=True))
    fingerprinting_utils.write_fingerprint(export_dir)


def _clear(nodes: Sequence[node_def_pb2.NodeDef]) -> None:
    for node in nodes:
        if current_scope.is_ipu(node.device):
            node.device = ""
