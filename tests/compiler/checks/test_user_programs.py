"""Checks of custom operations in whose programs replicas exchange data."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler.checks import user_programs
from tensorflow_ipu.compiler.passes import user_ops
from tests.support.programs.compiled_programs import program_of


def _executable(processes: int) -> SimpleNamespace:
    return SimpleNamespace(replicas=2, system=SimpleNamespace(process_count=processes))


def test_exchange_between_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any op stands for a custom operation."""
    program = program_of(lambda x: tf.square(x, name="mine"), tf.TensorSpec([], tf.float32))
    monkeypatch.setattr(user_ops, "exchanges", lambda node: node.op == "Square")
    user_programs.check_exchange(program, _executable(1))
    with pytest.raises(tf.errors.UnimplementedError, match="mine.* are in 2 processes"):
        user_programs.check_exchange(program, _executable(2))
