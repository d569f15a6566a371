"""Loads the native library with ctypes, and declares the types of its functions."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import tensorflow as tf
from tensorflow.python.eager import context

from tensorflow_ipu.versions import built_for

# Called with the address of a request.
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

# Name, type of the result, types of the arguments: what native/engine/c_api.cc declares.
_FUNCTIONS = (
    ("tfipu_tensorflow_version", ctypes.c_char_p),
    ("tfipu_free", None, ctypes.c_void_p),
    ("tfipu_set_compiler", None, Callback),
    ("tfipu_set_error_writer", None, Callback),
    ("tfipu_error_text", ctypes.c_void_p, ctypes.c_void_p),
    ("tfipu_reply_error_text", None, ctypes.c_void_p, ctypes.c_char_p),
    ("tfipu_request_text", ctypes.c_void_p, ctypes.c_void_p),
    (
        "tfipu_reply",
        None,
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int64,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
    ),
    ("tfipu_reply_error", None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p),
    ("tfipu_attach", None, ctypes.c_int64, ctypes.c_int),
    ("tfipu_list_devices", None),
    ("tfipu_wait_idle", ctypes.c_int, ctypes.c_int64),
    (
        "tfipu_placed_library",
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_int64),
    ),
    ("tfipu_gone_clusters", ctypes.c_void_p),
    ("tfipu_forget_cluster", None, ctypes.c_char_p),
    ("tfipu_forget_executable", None, ctypes.c_char_p),
    ("tfipu_drop_feed", None, ctypes.c_char_p, ctypes.c_int),
    (
        "tfipu_fill_infeed",
        None,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(ctypes.c_int64),
        ctypes.c_int64,
        ctypes.POINTER(ctypes.c_void_p),
    ),
    (
        "tfipu_take_outfeed",
        ctypes.c_int64,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int64,
        ctypes.POINTER(ctypes.c_void_p),
    ),
    ("tfipu_counts", None, ctypes.POINTER(ctypes.c_int64)),
    ("tfipu_connect", None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_void_p),
    ("tfipu_stop_launches", None, ctypes.c_int64),
    ("tfipu_shut_down", None, ctypes.c_int64),
    ("tfipu_reset_seed", None, ctypes.c_int, ctypes.c_int64, ctypes.c_int),
    ("tfipu_enable_events", None, ctypes.c_int),
    ("tfipu_drain_events", ctypes.c_void_p),
    (
        "tfipu_statistics",
        None,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_int64),
        ctypes.POINTER(ctypes.c_double),
    ),
    ("tfipu_log_launches", None, ctypes.c_char_p, ctypes.c_char_p),
    ("tfipu_kernel_available", ctypes.c_int, ctypes.c_char_p, ctypes.c_int64),
    (
        "tfipu_check_user_op",
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int64,
        ctypes.POINTER(ctypes.c_int),
    ),
)


def library_path() -> Path:
    """Returns where the native library is installed.

    Raises:
        ImportError: If it is not there.
    """
    folders = built_for.plugin_folders()
    for folder in folders:
        if (folder / built_for.LIBRARY).exists():
            return folder / built_for.LIBRARY
    raise ImportError(
        f"The native library of tensorflow_ipu, {built_for.LIBRARY}, is not in "
        f"{' or '.join(dict.fromkeys(map(str, folders)))}. Install the package again: "
        f"pip install --force-reinstall --no-deps tensorflow_ipu. {built_for.ADVICE}"
    )


@functools.cache
def load() -> ctypes.CDLL:
    """Loads the native library and declares the types of its C functions, once.

    Returns:
        The library.

    Raises:
        ImportError: If it is not there, or was built for another TensorFlow.
    """
    try:
        library = ctypes.CDLL(str(library_path()))
    except OSError as error:
        raise ImportError(
            f"The native library of tensorflow_ipu does not load into TensorFlow {tf.__version__}: "
            f"{error}. It was built for another one. Install it again: pip install "
            f"--force-reinstall --no-deps tensorflow_ipu. {built_for.ADVICE}"
        ) from error
    for name, result, *arguments in _FUNCTIONS:
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    # Once more, for a TensorFlow of which there is no distribution.
    built_for.compare(library.tfipu_tensorflow_version().decode(), tf.__version__)
    return library


def list_devices() -> None:
    """Lets TensorFlow list IPUs as physical devices.

    A program that does not use this package sees none of them: Keras decides by the list whether
    to compile models with XLA.
    """
    load().tfipu_list_devices()
    known = context.context()
    if known._physical_devices is None:  # TensorFlow has not looked yet
        return
    # Listing anew forgets what the program has set for the devices that were there.
    hidden = {*known._physical_devices} - {*known._visible_device_list}
    growth = known._memory_growth_map
    known.reinitialize_physical_devices()
    known._visible_device_list = [d for d in known._physical_devices if d not in hidden]
    known._memory_growth_map.update(growth)
