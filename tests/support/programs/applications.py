"""Small programs with feeds, compiled to files for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.serving import embedded_runtime
from tensorflow_ipu.serving.application_compile_op import experimental_application_compile_op


def configure(ipus: int = 1) -> None:
    """Attaches one device of N IPUs."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def infeed(*shapes: tuple[int, ...], dtype: Any = np.float32) -> IPUInfeedQueue:
    """Returns a queue whose elements are tuples of such arrays; nobody reads the dataset."""
    zeros = tuple(np.zeros(shape, dtype) for shape in shapes)
    return IPUInfeedQueue(tf.data.Dataset.from_tensors(zeros if len(zeros) > 1 else zeros[0]))


def loop(body: Callable[..., Any], iterations: int = 5, *shapes: tuple[int, ...]) -> Any:
    """Returns a program that sends the result of `body` for each element."""
    source, sink = infeed(*(shapes or [(2,)])), IPUOutfeedQueue()

    def program() -> Any:
        return loops.repeat(iterations, lambda *x: sink.enqueue(body(*x)), [], source)

    return program


def compiled(program: Any, path: Path, inputs: Any = None, freeze: bool = False) -> str:
    """Compiles a program in eager mode; returns the path."""
    found = experimental_application_compile_op(program, inputs, str(path), freeze)
    return found.numpy().decode()


def call(context: Any, *inputs: Any) -> list[np.ndarray]:
    """Calls an engine in eager mode."""
    outputs = embedded_runtime.embedded_runtime_call(list(inputs), context)
    return [output.numpy() for output in outputs]
