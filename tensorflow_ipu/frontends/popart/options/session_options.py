"""`SessionOptions`: the options of a session, by the table of `declarations`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends.common import executable_cache
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.common.option_groups import FORMER_NAMES
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.options.declarations import OPTIONS, Effect
from tensorflow_ipu.util.notices import warn_once


def _property(name: str) -> property:
    """Returns the property of an option, which refuses values of other types."""
    expected = type(OPTIONS[name].default())

    def read(self: SessionOptions) -> Any:
        return self._values[name]

    def write(self: SessionOptions, value: Any) -> None:
        fits = isinstance(value, expected) and not (
            isinstance(value, bool) and expected is not bool
        )
        if not fits and not (expected is float and isinstance(value, int)):
            raise TypeError(
                f"SessionOptions.{name}: incompatible function arguments. Expected "
                f"{expected.__name__}; received {value!r}."
            )
        self._values[name] = value

    return property(read, write, doc=f"The option {name} ({OPTIONS[name].effect.value}).")


def _alias(name: str, target: str) -> property:
    """Returns the property of a former name of an option."""

    def write(self: SessionOptions, value: Any) -> None:
        Logger("session").warn(f"SessionOptions.{name} has been deprecated. Use {target}.")
        setattr(self, target, value)

    return property(lambda self: getattr(self, target), write, doc=f"The former name of {target}.")


class _Declared:
    """Gives a class a property for each option of the table."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in OPTIONS:
            setattr(cls, name, _property(name))
        for name, target in FORMER_NAMES.items():
            setattr(cls, name, _alias(name, target))


class SessionOptions(_Declared):
    """The options of a session; each is an attribute."""

    __slots__ = ("_values",)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Stands for the properties of the table."""

    def __init__(self) -> None:
        self._values = {name: option.default() for name, option in OPTIONS.items()}
        folder = executable_cache.folder_of_environment()
        if folder:
            self._values.update(enableEngineCaching=True, cachePath=folder)

    def __repr__(self) -> str:
        return f"SessionOptions[{', '.join(sorted(self.changed())) or 'defaults'}]"

    def changed(self) -> dict[str, Any]:
        """Returns the options that do not have their defaults, by name."""
        return {
            name: value for name, value in self._values.items() if value != OPTIONS[name].default()
        }

    def copied(self) -> SessionOptions:
        """Returns options that later changes of these do not reach."""
        made = SessionOptions()
        made._values = copy.deepcopy(self._values)
        return made

    def enableExplicitIR(self, arg0: bool) -> None:
        """Sets the three options that make copies, loops and recomputation ops of the graph.

        Args:
            arg0: their value.
        """
        for name in ("useHostCopyOps", "enableExplicitMainLoops", "explicitRecomputation"):
            setattr(self, name, arg0)

    def getGlobalReplicationFactor(self) -> int:
        """Returns the number of replicas in all processes."""
        if self._values["enableDistributedReplicatedGraphs"]:
            return int(self._values["globalReplicationFactor"])
        return self.replication_factor

    @property
    def replication_factor(self) -> int:
        """The number of replicas."""
        count = self._values["replicatedGraphCount"]
        return int(count) if self._values["enableReplicatedGraphs"] else 1

    @property
    def accumulation_factor(self) -> int:
        """The number of micro-batches of a batch."""
        count = int(self._values["accumulationFactor"])
        return count if self._values["enableGradientAccumulation"] else 1

    def check_accumulation(self) -> None:
        """Refuses several micro-batches for a batch if accumulation is not enabled.

        Raises:
            popart_exception: If there are several.
        """
        count = int(self._values["accumulationFactor"])
        if count > 1 and not self._values["enableGradientAccumulation"]:
            raise popart_exception(
                "enableGradientAccumulation is false, but accumulationFactor > 1. Received: "
                f"accumulationFactor={count}"
            )

    def warn_of_ignored(self) -> None:
        """Says which options have no effect here, although they have one on the chip."""
        for name in self.changed():
            if OPTIONS[name].effect is Effect.IGNORED:
                warn_once(
                    f"SessionOptions.{name} changes only memory and time on the chip; it has no "
                    "effect on the simulated IPU."
                )
