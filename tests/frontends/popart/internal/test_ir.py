"""`popart._internal.ir` has the classes that PopART and PopXL share."""

from __future__ import annotations

import pytest
from popart._internal import ir

NAMES = """AnchorReturnType DataFlow InputSettings DebugContext DebugInfo SourceLocation Graph Ir Op
    OptimizerValue SessionOptions Tensor TensorInfo ExecutionContext CollectiveOperator
    op""".split()


@pytest.mark.parametrize("name", NAMES)
def test_internal_ir_has_shared_name(name):
    assert hasattr(ir, name)
