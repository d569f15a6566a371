"""Small Programs for tests of the compiler, made by tracing."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Argument, Target
from tensorflow_ipu.configs import flags, translate
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.runtime import attachment, system


@functools.cache
def default_system() -> attachment.System:
    """Returns the default configuration, without flags; nothing is attached."""
    return system.build(translate.to_options(IPUConfig()), flags.Flags(), 0)


def default_target(*arguments: Argument) -> Target:
    """Returns a target with the default configuration, ignoring the one in force."""
    return Target(0, default_system(), arguments)


def scalar_target(count: int = 1) -> Target:
    """Returns a target with `count` float32 scalars as arguments."""
    argument = Argument(tf.float32, tf.TensorShape([]), is_variable=False)
    return default_target(*[argument] * count)


def program_of(function: Callable[..., Any], *specs: tf.TensorSpec) -> Program:
    """Traces a function as TensorFlow 2 does, and returns it as the compiler sees it."""
    concrete = tf.function(function).get_concrete_function(*specs)
    cluster = Cluster.from_graph(concrete.graph, "test", concrete)
    return Program.from_library(cluster.library(), cluster.entry)


def unindented(text: str) -> str:
    """Returns the text of a Program as a test writes it, without the indentation of the test."""
    return textwrap.dedent(text).strip("\n")


def ops(program: Program) -> list[str]:
    """Returns the types of all nodes, sorted."""
    return sorted(node.op for _, node in program.nodes())
