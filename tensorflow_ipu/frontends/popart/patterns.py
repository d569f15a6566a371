"""`Patterns`: the rewrites of graphs that are enabled."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow_ipu.frontends.common.enums import PatternsLevel
from tensorflow_ipu.frontends.cpp_ops import ops
from tensorflow_ipu.frontends.popart.errors import popart_exception

MANDATORY = (
    *("AbsGradOp", "AllReduceToIdentity", "Atan2Arg0GradOp", "Atan2Arg1GradOp", "ConvDataGrad"),
    *("ConvFlipWeightsGradOp", "ConvTranspose", "CosGradOp", "CoshOp", "DivArg0GradOp"),
    *("DivArg1GradOp", "ExpGradOp", "Expm1GradOp", "FmodArg0GradOp", "Log1pGradOp", "LogGradOp"),
    *("LoopScanOut", "MatMulLhsGradOp", "MatMulOp", "MatMulRhsGradOp", "MulArgGradOp"),
    *("PowArg0GradOp", "PowArg1GradOp", "RandomNormalLikeOpPattern", "RandomUniformLikeOpPattern"),
    *("ReciprocalGradOp", "ScanToLoop", "SinGradOp", "SqrtGradOp", "SubtractArg1GradOp"),
    "ZerosLikeOpPattern",
)
ON_BY_DEFAULT = (
    *("ConvFlipWeightsDoubleFlip", "DecomposeBinaryConstScalar", "ExpandCast", "InitAccumulate"),
    *("LambSerialisedWeight", "NegativeOneScale", "NlllWithSoftmaxGradDirect", "OpToIdentity"),
    *("PackedDataBlock", "PadSum", "PostNRepl", "PreUniRepl", "RemoveUnnecessaryLossGradCast"),
    *("SoftmaxGradDirect", "SplitGradOpToConcat", "SplitOp", "SumToAdd"),
    *("TransposeToIdentityOrReshapePattern", "UpsampleToResize", "InPlace", "ViewSimplifyPattern"),
)
OFF_BY_DEFAULT = (
    *("LSTMOp", "Slice2SliceSubsample", "SplitGather", "TiedGather", "TiedGatherAccumulate"),
    "UpdateInplacePrioritiesForIpu",
)
ALL = (*MANDATORY, *ON_BY_DEFAULT, *OFF_BY_DEFAULT)

# Properties with other spellings than the names.
_PROPERTIES = {
    "SoftMaxGradDirect": "SoftmaxGradDirect",
    "NlllWithSoftMaxGradDirect": "NlllWithSoftmaxGradDirect",
    **{
        name: name
        for name in (
            *("PreUniRepl", "PostNRepl", "OpToIdentity", "SubtractArg1GradOp", "MulArgGradOp"),
            *("MatMulOp", "MatMulLhsGradOp", "MatMulRhsGradOp", "InPlace"),
        )
    },
}


def _property(pattern: str) -> property:
    return property(
        lambda self: self.isPatternEnabled(pattern),
        lambda self, on: self.enablePattern(pattern, on) and None,
        doc=f"Whether the pattern {pattern} is on.",
    )


class _Switches:
    """Gives a class a property for each pattern that has one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, pattern in _PROPERTIES.items():
            setattr(cls, name, _property(pattern))


#: Attribute of nodes: the patterns that do not change it.
EXCLUDED_PATTERNS = "__exclude_patterns"


class Patterns(_Switches):
    """The enabled patterns. Only patterns of libraries change results."""

    def __init__(self, arg0: PatternsLevel | Iterable[str] = PatternsLevel.Default) -> None:
        """Takes a level, or the patterns that are on.

        Args:
            arg0: the level, or names.

        Raises:
            popart_exception: If there is no such pattern.
        """
        self._asserts = True
        self._level = arg0 if isinstance(arg0, PatternsLevel) else PatternsLevel.NoPatterns
        if not isinstance(arg0, PatternsLevel):
            self._on = dict.fromkeys(ALL, False)
            for name in arg0:
                self._on[_known(name)] = True
            return
        chosen = {
            PatternsLevel.NoPatterns: (),
            PatternsLevel.Minimal: MANDATORY,
            PatternsLevel.Default: (*MANDATORY, *ON_BY_DEFAULT),
            PatternsLevel.All: ALL,
        }[arg0]
        self._on = {name: name in chosen for name in ALL}

    def __repr__(self) -> str:
        return f"Patterns[{sum(self._on.values())} of {len(self._on)} on]"

    def __str__(self) -> str:
        return "\n".join(f"{name}: {'on' if on else 'off'}" for name, on in self._on.items())

    def enablePattern(self, arg0: str, arg1: bool) -> Patterns:
        """Switches a pattern on or off.

        Args:
            arg0: its name.
            arg1: whether it is on.

        Returns:
            This object.

        Raises:
            popart_exception: If there is none, or it has to be on.
        """
        name = _known(arg0)
        if (name in MANDATORY or ops.patterns().get(name, (False, False))[1]) and not arg1:
            raise popart_exception(f"Pattern '{name}' is mandatory and cannot be disabled.")
        self._on[name] = bool(arg1)
        return self

    def isPatternEnabled(self, arg0: str) -> bool:
        """Returns whether a pattern is on.

        Args:
            arg0: its name.

        Raises:
            popart_exception: If there is none.
        """
        name = _known(arg0)
        return self._on[name] if name in self._on else self._is_on(*ops.patterns()[name])

    def _is_on(self, by_default: bool, is_mandatory: bool) -> bool:
        """Returns whether the level has a pattern of a library on."""
        return {
            PatternsLevel.NoPatterns: False,
            PatternsLevel.Minimal: is_mandatory,
            PatternsLevel.Default: by_default or is_mandatory,
            PatternsLevel.All: True,
        }[self._level]

    @staticmethod
    def getAllPreAliasPatternNames() -> list[str]:
        """Returns the names of all patterns, also of loaded libraries."""
        return [*ALL, *ops.patterns()]

    @property
    def disabled(self) -> frozenset[str]:
        """Names of the patterns that are off."""
        return frozenset(name for name, on in self._on.items() if not on)

    def enableRuntimeAsserts(self, arg0: bool) -> Patterns:
        """Chooses whether sessions refuse patterns that have to be on and are not.

        Args:
            arg0: whether they do.

        Returns:
            This object.
        """
        self._asserts = bool(arg0)
        return self

    def check(self) -> None:
        """Refuses patterns that have to be on and are not, unless asked not to.

        Raises:
            popart_exception: If there is one.
        """
        for name in MANDATORY if self._asserts else ():
            if not self._on[name]:
                raise popart_exception(
                    f"Pattern '{name}' must be enabled. Enable it, or call "
                    "enableRuntimeAsserts(False)."
                )


def check_name(name: str) -> None:
    """Refuses a name that no pattern has.

    Args:
        name: the name.

    Raises:
        popart_exception: If there is no such pattern.
    """
    known = Patterns.getAllPreAliasPatternNames()
    if name not in known:
        raise popart_exception(
            f"Invalid pattern name '{name}' in a node's excluded patterns. There are: "
            f"{', '.join(sorted(known))}."
        )


def _known(name: str) -> str:
    """Returns the name of a pattern."""
    names = Patterns.getAllPreAliasPatternNames()
    if name in names:
        return name
    near = next((known for known in names if known.lower() == name.lower()), None)
    advice = f", did you mean {near}?" if near else "."
    raise popart_exception(f"Unknown pattern {name}{advice}")
