"""The floating-point options of a configuration, and those that single nodes override."""

from __future__ import annotations

import dataclasses
import enum

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import node_def_pb2

from tensorflow_ipu.compiler.ir.program import FRONTEND_ATTRIBUTE
from tensorflow_ipu.configs import partials
from tensorflow_ipu.configs.enums import StochasticRoundingBehaviour
from tensorflow_ipu.device.attachment import System

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
        own = partials.OF_KEY.get(_frontend(node).get(partials.KEY, ""))
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
