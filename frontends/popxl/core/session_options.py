"""`SessionOptions`: what `ir._pb_ir.getSessionOptions()` returns, options by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorflow_ipu.configs.notices import warn_once

_PROPORTION, _PARTIALS = "availableMemoryProportion", "partialsType"
_SUMS = {"half": "float16", "float": "float32"}

#: Options that reach plans, with their defaults.
_PLANNED: Mapping[str, Any] = {
    "numIOTiles": 0,
    "partialsTypeMatMuls": "",
    "convolutionOptions": {},
    "matmulOptions": {},
    "enableOutlining": True,
    "enablePrefetchDatastreams": True,
}
#: Options that change what a session computes, or refuses, with their defaults.
_COMPUTED: Mapping[str, Any] = {
    "enableStochasticRounding": False,
    "enableInplaceAmbiguityChecking": True,
}
#: Options for which there is nothing to do here: caches, logs, code and the order of work.
_WITHOUT_EFFECT = frozenset(
    """
    aliasZeroCopy cachePath compileEngine dotChecks dotOpNames enableEngineCaching enableExplicitIR
    enableMergeExchange enableVariablesCaching engineOptions explicitPipelining
    explicitRecomputation exportPoplarComputationGraph exportPoplarVertexGraph finalDotOp firstDotOp
    groupHostSync groupNormOptions gclOptions instrumentWithHardwareCycleCounter logDir lstmOptions
    outlineSequenceBreakCost outlineThreshold reductionOptions reportOptions separateCallOpPdfs
    strictOpVersions swapLimitScheduler transitiveClosureOptimizationThreshold useHostCopyOps
    useLoopCandidateCreator
    """.split()
)


class SessionOptions:
    """Options of a session, which are attributes. Set them before the session is made.

    Options that are unknown here are kept, with one warning each: they have no effect.
    """

    def __init__(self) -> None:
        """Starts with the defaults."""
        for name, value in {**_PLANNED, **_COMPUTED}.items():
            object.__setattr__(self, name, dict(value) if isinstance(value, dict) else value)

    def __repr__(self) -> str:
        defaults = {**_PLANNED, **_COMPUTED}
        changed = {k: v for k, v in vars(self).items() if v != defaults.get(k)}
        return f"SessionOptions[{', '.join(f'{name}={v!r}' for name, v in changed.items())}]"

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PLANNED and name not in _COMPUTED and name not in _WITHOUT_EFFECT:
            warn_once("The session option %s has no effect here: it is not known.", name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Options that nobody has set: containers of the original are filled in place.
        if name.startswith("_"):
            raise AttributeError(name)
        if name.endswith("Options"):
            object.__setattr__(self, name, {})
            return vars(self)[name]
        raise AttributeError(
            f"The session option {name!r} is not set, and its default is not known here."
        )

    def value(self, name: str) -> Any:
        """Returns an option.

        Args:
            name: its name, one that has an effect.
        """
        return vars(self)[name]

    def planned(self) -> dict[str, Any]:
        """Returns what the options say of the Settings that a program is planned for.

        Raises:
            ValueError: If a value is none that the option may have.
        """
        found: dict[str, Any] = {}
        tiles = self.value("numIOTiles")
        if isinstance(tiles, bool) or not isinstance(tiles, int) or tiles < 0:
            raise ValueError(f"numIOTiles must be a number of tiles. Received: {tiles!r}")
        if tiles:
            found["io_tiles"] = tiles
        for option, attribute in (
            ("enableOutlining", "outlining"),
            ("enablePrefetchDatastreams", "prefetch"),
        ):
            if not self.value(option):
                found[attribute] = False
        for library in ("convolution", "matmul"):
            given = self.value(f"{library}Options")
            if _PROPORTION in given:
                found[f"{library}_proportion"] = float(given[_PROPORTION])
            sums = given.get(_PARTIALS, "")
            if library == "matmul":
                sums = self.value("partialsTypeMatMuls") or sums
            if sums:
                found[f"{library}_partials"] = _type_of_sums(sums)
        return found


def _type_of_sums(name: Any) -> str:
    """The type of partial sums that an option names."""
    if name not in _SUMS:
        raise ValueError(
            f"The type of partial sums must be one of {', '.join(_SUMS)}. Received: {name!r}"
        )
    return _SUMS[name]


class PbIr:
    """What programs use of the original's `ir._pb_ir`: the session options."""

    def __init__(self) -> None:
        """Makes options with the defaults."""
        self._options = SessionOptions()

    def __repr__(self) -> str:
        return f"PbIr[{self._options!r}]"

    def getSessionOptions(self) -> SessionOptions:  # noqa: N802
        """Returns the session options, to be set by attribute."""
        return self._options
