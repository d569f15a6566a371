"""Names that PopART and PopXL share: the module `popart._internal.ir`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tensorflow_ipu.frontends.common.enums import *  # noqa: F403 - all of them
from tensorflow_ipu.frontends.cpp_ops import binding
from tensorflow_ipu.frontends.popart.dataflow import AnchorReturnType as AnchorReturnType
from tensorflow_ipu.frontends.popart.dataflow import DataFlow as DataFlow
from tensorflow_ipu.frontends.popart.dataflow import InputSettings as InputSettings
from tensorflow_ipu.frontends.popart.debug_info import DebugContext as DebugContext
from tensorflow_ipu.frontends.popart.debug_info import DebugInfo as DebugInfo
from tensorflow_ipu.frontends.popart.debug_info import SourceLocation as SourceLocation
from tensorflow_ipu.frontends.popart.optimizers.optimizer import OptimizerValue as OptimizerValue
from tensorflow_ipu.frontends.popart.session.reports import Ir as Ir
from tensorflow_ipu.frontends.popart.session_options import SessionOptions as SessionOptions
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo as TensorInfo
from tensorflow_ipu.frontends.popxl.ir import Graph as Graph
from tensorflow_ipu.frontends.popxl.ir import Op as Op
from tensorflow_ipu.frontends.popxl.tensor import Tensor as Tensor
from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext as ExecutionContext

# Class -> the types of ops that it stands for, those that write into an input among them.
_TYPES = {
    "AccumulateOp": "Accumulate AccumulateMean AccumulateSquare AccumulateMovingAverage"
    " AccumulateMovingAverageSquare",
    "AddOp": "Add AddInplace",
    "CallOp": "Call",
    "CastOp": "Cast",
    "ConcatOp": "Concat ConcatInplace",
    "ConvOp": "Conv",
    "DivOp": "Div",
    "DropoutOp": "Dropout",
    "GatherOp": "Gather TiedGather",
    "GeluOp": "Gelu GeluInplace",
    "GroupNormOp": "GroupNormalization",
    "IfOp": "If",
    "InitOp": "Init",
    "IpuCopyOp": "IpuCopy",
    "LoopOp": "Loop",
    "MatMulOp": "MatMul",
    "MulOp": "Mul",
    "ReduceMeanOp": "ReduceMean",
    "ReduceSumOp": "ReduceSum",
    "ReluOp": "Relu ReluInplace",
    "ReshapeOp": "Reshape ReshapeInplace",
    "ScaledAddOp": "ScaledAdd ScaledAddInplace",
    "SliceOp": "Slice SliceInplace",
    "SoftmaxOp": "Softmax",
    "SplitOp": "Split",
    "SubtractOp": "Sub",
    "SumOp": "Sum",
    "TransposeOp": "Transpose TransposeInplace",
}
_EXCHANGE_TYPES = {
    "HostLoadOp": "HostLoad",
    "HostStoreOp": "HostStore",
    "MultiExchangeOp": "MultiExchange",
    "RemoteLoadOp": "RemoteLoad RemoteLoadInplace",
    "RemoteStoreOp": "RemoteStore",
}


class _OfTypes(type):
    """The class of a class that an op is an instance of by its type."""

    types: frozenset[str]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Op) and instance.kind.type in cls.types


def _classes(table: dict[str, str]) -> dict[str, type]:
    """Makes the classes of a table."""
    return {
        name: _OfTypes(
            name, (), {"types": frozenset(types.split()), "__doc__": f"Ops of the types {types}."}
        )
        for name, types in table.items()
    }


#: Classes of ops for `isinstance` in hooks; `exchange` has those of data movement.
op = SimpleNamespace(**_classes(_TYPES), exchange=SimpleNamespace(**_classes(_EXCHANGE_TYPES)))


def __getattr__(name: str) -> Any:
    # Only bindings of operations need the compiled module.
    if name in binding.NAMES:
        return getattr(binding.load(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
