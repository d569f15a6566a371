"""Arithmetic of the device: which ops it computes differently, and how the host imitates it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import node_def_pb2

from tensorflow_ipu.compiler.analysis import op_work
from tensorflow_ipu.compiler.ir.function_nodes import FunctionEditor
from tensorflow_ipu.compiler.ir.program import FRONTEND_ATTRIBUTE, node_tag
from tensorflow_ipu.configs import enums
from tensorflow_ipu.configs.enums import StochasticRoundingBehaviour
from tensorflow_ipu.runtime.attachment import System
from tensorflow_ipu.util import op_names


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """How an op rounds, and where its results can be infinite or NaN.

    Attributes:
        elementwise: Whether an element of the result comes from the elements at the same index of
            the operands, with broadcasting.
        pole: Where finite operands have an infinite result that is exact: "" nowhere, "any"
            wherever the result is infinite, "zero" or "nonpositive" where one operand is.
        pole_operand: Which operand that is.
        divides: Whether the pole is a division by zero, whose result the device has as NaN in
            float16.
        overflows_float: Whether finite float16 operands can have results that are too large even
            for float32.
        family: Which library options it has: "matmuls", "convolutions" or "".
    """

    elementwise: bool = True
    pole: str = ""
    pole_operand: int = 0
    divides: bool = False
    overflows_float: bool = False
    family: str = ""


def _table(*rows: tuple[Arithmetic, str]) -> dict[str, Arithmetic]:
    return {op: arithmetic for arithmetic, names in rows for op in names.split()}


#: Ops whose results are rounded, by name.
ARITHMETIC = _table(
    (
        Arithmetic(),
        "Add AddV2 AddN AccumulateNV2 Sub Mul MulNoNan DivNoNan Square SquaredDifference Sqrt Sin "
        "Cos Tan Asin Acos Atan Atan2 Tanh Asinh Acosh Sigmoid Erf Erfc Softplus Softsign Elu Selu "
        "LeakyRelu BiasAdd BiasAddV1 TanhGrad SigmoidGrad SoftplusGrad SoftsignGrad EluGrad "
        "SeluGrad LeakyReluGrad RsqrtGrad InvGrad ReciprocalGrad Lerp NextAfter",
    ),
    (Arithmetic(overflows_float=True), "Exp Expm1 Sinh Cosh"),
    (Arithmetic(pole="any"), "Log Log1p Rsqrt Atanh Erfinv Ndtri Digamma Xlog1py"),
    (Arithmetic(pole="nonpositive"), "Lgamma"),
    (Arithmetic(pole="zero", divides=True), "Inv Reciprocal SqrtGrad"),
    (Arithmetic(pole="zero", overflows_float=True), "Pow"),
    (
        Arithmetic(pole="zero", pole_operand=1, divides=True),
        "Div RealDiv TruncateDiv FloorDiv Xdivy",
    ),
    (Arithmetic(pole="zero", pole_operand=1), "Mod FloorMod TruncateMod Xlogy"),
    (
        Arithmetic(elementwise=False, family="matmuls"),
        "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum",
    ),
    (
        Arithmetic(elementwise=False, family="convolutions"),
        "Conv2D Conv2DBackpropInput Conv2DBackpropFilter Conv3D Conv3DBackpropInputV2 "
        "Conv3DBackpropFilterV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput "
        "DepthwiseConv2dNativeBackpropFilter",
    ),
    (Arithmetic(elementwise=False, overflows_float=True), "Prod Cumprod UnsortedSegmentProd"),
    (
        Arithmetic(elementwise=False),
        "Sum Mean EuclideanNorm L2Loss Cumsum BiasAddGrad SegmentSum SegmentMean "
        "UnsortedSegmentSum AvgPool AvgPoolGrad AvgPool3D AvgPool3DGrad MaxPoolGrad MaxPool3DGrad "
        "Softmax LogSoftmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits "
        "FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGradV2 FusedBatchNormGradV3",
    ),
    (Arithmetic(elementwise=False), " ".join(sorted(op_names.ADDING_COLLECTIVES))),
)
_CAST = Arithmetic()
#: Ops whose results are values of the operands, or not floating point: nothing is rounded. They
#: work on whichever form of the operands there is.
EXACT = frozenset(
    """
    Identity StopGradient PreventGradient Snapshot Reshape Transpose Squeeze ExpandDims Relu Relu6
    ReluGrad Relu6Grad Neg Abs Sign Maximum Minimum Max Min MaxPool Select SelectV2 ClipByValue
    Floor Ceil Rint Round ZerosLike OnesLike Greater GreaterEqual Less LessEqual Equal NotEqual
    IsNan IsInf IsFinite ArgMax ArgMin TopKV2
    Shape ShapeN Size Rank EnsureShape Split SplitV ConcatV2 Pack Unpack Slice StridedSlice
    StridedSliceGrad Pad PadV2 MirrorPad Tile BroadcastTo ReverseV2 GatherV2 GatherNd Fill
    """.split()
)
#: Dense updates of variables by the rule of an optimizer.
UPDATES = frozenset(
    """
    ResourceApplyGradientDescent ResourceApplyMomentum ResourceApplyKerasMomentum ResourceApplyAdam
    ResourceApplyAdaMax ResourceApplyAdamWithAmsgrad ResourceApplyAdagrad ResourceApplyAdagradV2
    ResourceApplyAdadelta ResourceApplyRMSProp ResourceApplyCenteredRMSProp ResourceApplyFtrl
    ResourceApplyFtrlV2 ResourceApplyAddSign ResourceApplyPowerSign
    ResourceApplyProximalGradientDescent ResourceApplyProximalAdagrad
    """.split()
)
# Our own ops without arithmetic.
_NO_ARITHMETIC = op_work.DATA_MOVEMENT


def arithmetic_of(node: node_def_pb2.NodeDef) -> Arithmetic | None:
    """Returns the arithmetic of a node; None if its results are not rounded."""
    return _CAST if node.op == "Cast" else ARITHMETIC.get(node.op)


def checked(node: node_def_pb2.NodeDef) -> Arithmetic | None:
    """Returns the arithmetic of a node that traps check, fused ops of this package included."""
    found = arithmetic_of(node)
    if found is None and op_names.is_own(node.op) and node.op not in _NO_ARITHMETIC:
        return Arithmetic(elementwise=False)
    return found


# --- The floating-point options of a configuration, and those that single nodes override ---

# Keys and values that `ipu.scopes` writes.
_ROUNDING_KEY = "STOCHASTIC_ROUNDING"
_ROUNDING_VALUES = {"THREESTATE_ON": True, "THREESTATE_OFF": False}
_CATEGORY = "floating_point_behaviour"


class Overflow(enum.Enum):
    """How float16 arithmetic treats a finite result that float16 cannot hold."""

    CLIP = "clip"
    NAN = "nan"
    INFINITE = "infinite"


@dataclasses.dataclass(frozen=True)
class FloatBehavior:
    """How arithmetic behaves on the device.

    Attributes:
        inv: Whether an invalid operation ends the program.
        div0: Whether a division by zero does.
        oflo: Whether an overflow does.
        overflow: Result of a float16 overflow.
        rounding: Where float16 results are rounded stochastically.
        overrides_rounding: Whether ops may say themselves whether they are.
        prng_stability: Whether ops that compute the same on all replicas round alike.
        half_partials: The families of ops ("matmuls", "convolutions") that add in float16.
    """

    inv: bool = False
    div0: bool = False
    oflo: bool = False
    overflow: Overflow = Overflow.CLIP
    rounding: StochasticRoundingBehaviour = StochasticRoundingBehaviour.OFF
    overrides_rounding: bool = True
    prng_stability: bool = False
    half_partials: frozenset[str] = frozenset()

    @classmethod
    def of(cls, attached: System, traps: bool = False) -> FloatBehavior:
        """Returns the floating-point behaviour of a configuration.

        The IPU model has ordinary float16: an overflow is infinite, and nothing else can be chosen.

        Args:
            attached: the configuration.
            traps: whether the program asks for all traps itself.
        """
        options = dict(attached.settings.items())
        half_partials = frozenset(
            family
            for family in ("matmuls", "convolutions")
            if attached.partials_type(family) == "float16"
        )
        if attached.machine.is_model:
            return cls(
                overflow=Overflow.INFINITE, overrides_rounding=False, half_partials=half_partials
            )
        everything = options[f"{_CATEGORY}.set_all"]
        nan = everything or options[f"{_CATEGORY}.nanoo"]
        return cls(
            **{
                name: everything or traps or options[f"{_CATEGORY}.{name}"]
                for name in ("inv", "div0", "oflo")
            },
            overflow=Overflow.NAN if nan else Overflow.CLIP,
            rounding=_rounding(True if everything else options[f"{_CATEGORY}.esr"]),
            prng_stability=options["experimental.enable_prng_stability"],
            half_partials=half_partials,
        )

    @property
    def traps(self) -> bool:
        """Whether any event ends the program."""
        return self.inv or self.div0 or self.oflo

    def rounding_override(self, node: node_def_pb2.NodeDef) -> bool | None:
        """Returns a node's own choice of stochastic rounding; None without one, or if ignored."""
        if not self.overrides_rounding:
            return None
        return _ROUNDING_VALUES.get(_frontend(node).get(_ROUNDING_KEY, ""))

    def adds_in_half(self, node: node_def_pb2.NodeDef, family: str) -> bool:
        """Returns whether a node of a family ("matmuls", "convolutions", "") adds in float16."""
        if not family:
            return False
        own = enums.PARTIALS_OF_KEY.get(_frontend(node).get(enums.PARTIALS_KEY, ""))
        return family in self.half_partials if own is None else own == "float16"


def _rounding(value: bool | StochasticRoundingBehaviour) -> StochasticRoundingBehaviour:
    """Returns the option as an enum: programs for TensorFlow 1 set a bool."""
    if isinstance(value, StochasticRoundingBehaviour):
        return value
    return StochasticRoundingBehaviour.ON if value else StochasticRoundingBehaviour.OFF


def _frontend(node: node_def_pb2.NodeDef) -> dict[str, str]:
    """Returns the frontend attributes of a node."""
    if FRONTEND_ATTRIBUTE not in node.attr:
        return {}
    return dict(xla_data_pb2.FrontendAttributes.FromString(node.attr[FRONTEND_ATTRIBUTE].s).map)


# --- Rounding and trap checks of the results of floating-point ops ---


@dataclasses.dataclass(frozen=True)
class Result:
    """One result of a node, with the rounding and the checks that it needs.

    Attributes:
        name: Name of the node.
        op: Its type.
        arithmetic: How the op rounds, and where it traps.
        raw: The result as it was computed: in float32, unless the node adds in float16.
        half: Whether the device has it in float16.
        operands: Operands of the node.
        operand_types: Their types.
        rounding: Whether it is rounded stochastically, and whether alike on all replicas.
    """

    name: str
    op: str
    arithmetic: Arithmetic
    raw: str
    half: bool
    operands: tuple[str, ...]
    operand_types: tuple[int, ...]
    rounding: tuple[bool, bool]


class ResultFinisher:
    """Rewriter that adds checks and rounding of results to a function."""

    def __init__(
        self,
        editor: FunctionEditor,
        behavior: FloatBehavior,
        next_stream: Callable[[], int],
    ) -> None:
        """Stores the function's editor and the behaviour.

        Args:
            editor: of the function.
            behavior: floating-point behaviour of the configuration.
            next_stream: gives a number for the random bits of an op.
        """
        self._editor = editor
        self._behavior = behavior
        self._next_stream = next_stream

    def finish(self, result: Result) -> str:
        """Adds the nodes that check and round a result; returns its final value."""
        final = self._check(result) if self._behavior.traps else result.raw
        return self._round(result, final) if result.half else final

    def _check(self, result: Result) -> str:
        behavior, arithmetic = self._behavior, result.arithmetic
        # The operands tell why a result is infinite; for NaN alone they are not needed.
        wanted = behavior.oflo or (behavior.div0 and arithmetic.pole)
        node = self._editor.add(
            f"{result.name}/ipu_check",
            "IpuCheckNumerics",
            [result.raw, *(result.operands if wanted else ())],
            Toperands=result.operand_types if wanted else (),
            checked_name=node_tag(result.name, self._editor.function.signature.name),
            checked_op=result.op,
            inv=behavior.inv,
            div0=behavior.div0,
            oflo=behavior.oflo,
            to_half=result.half,
            **_description(arithmetic),
        )
        return f"{node.name}:output:0"

    def _round(self, result: Result, value: str) -> str:
        arithmetic = result.arithmetic
        stochastic, same = result.rounding
        # The operands tell overflows of float32 from infinities that are right.
        wanted = arithmetic.overflows_float or arithmetic.divides
        wanted = wanted and self._behavior.overflow is not Overflow.INFINITE
        node = self._editor.add(
            f"{result.name}/ipu_round",
            "IpuRoundStochastically" if stochastic else "IpuRoundToHalf",
            [value, *(result.operands if wanted else ())],
            Toperands=result.operand_types if wanted else (),
            overflow=self._behavior.overflow.value,
            divides=arithmetic.divides,
            **_description(arithmetic),
        )
        if stochastic:
            node.attr["stream"].i = self._next_stream()
            node.attr["same_on_all_replicas"].b = same
        return f"{node.name}:output:0"


def _description(arithmetic: Arithmetic) -> dict[str, bool | str | int]:
    """Returns the facts of an op that the engine's checks need."""
    return {
        "elementwise": arithmetic.elementwise,
        "pole": arithmetic.pole,
        "pole_operand": arithmetic.pole_operand,
    }
