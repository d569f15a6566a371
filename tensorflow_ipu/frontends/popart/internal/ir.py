"""Names that PopART and PopXL share: the module `popart._internal.ir`."""

from tensorflow_ipu.frontends.common.enums import *  # noqa: F403 - all of them
from tensorflow_ipu.frontends.popart.dataflow import AnchorReturnType as AnchorReturnType
from tensorflow_ipu.frontends.popart.dataflow import DataFlow as DataFlow
from tensorflow_ipu.frontends.popart.dataflow import InputSettings as InputSettings
from tensorflow_ipu.frontends.popart.debug_info import DebugContext as DebugContext
from tensorflow_ipu.frontends.popart.debug_info import DebugInfo as DebugInfo
from tensorflow_ipu.frontends.popart.debug_info import SourceLocation as SourceLocation
from tensorflow_ipu.frontends.popart.internal import op_classes
from tensorflow_ipu.frontends.popart.optimizers.optimizer import OptimizerValue as OptimizerValue
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions as SessionOptions
from tensorflow_ipu.frontends.popart.sessions.reports import Ir as Ir
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo as TensorInfo
from tensorflow_ipu.frontends.popxl.ir import Graph as Graph
from tensorflow_ipu.frontends.popxl.ir import Op as Op
from tensorflow_ipu.frontends.popxl.tensor import Tensor as Tensor
from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext as ExecutionContext

op = op_classes
