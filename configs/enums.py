"""Enumerations of `IPUConfig`, the legacy option functions, the flags and types of partial sums."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class NamedEnum(enum.Enum):
    """An enumeration whose members users may also give by name."""

    @classmethod
    def parse(cls, value: Self | str) -> Self:
        """Returns the member that a user's argument means.

        Args:
            value: a member, or the name of one in any case.

        Raises:
            ValueError: If it is neither.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        raise ValueError(
            f"Cannot parse {value} as one of {cls.__name__}. Expected a member, or one of the "
            f"names {', '.join(cls.__members__)}."
        )


class DeviceConnectionType(enum.Enum):
    """Moment at which a TensorFlow IPU device is attached to (simulated) hardware.

    * `ALWAYS`: while configuring.
    * `ON_DEMAND`: the first time a program is executed, so compiling needs no hardware.
    * `NEVER`: not at all; programs can be compiled, executing one is an error.
    * `PRE_COMPILE`: not at all; programs are compiled and saved in the executable cache, and
      executing one returns zeros.
    """

    ALWAYS = 0
    ON_DEMAND = 1
    NEVER = 2
    PRE_COMPILE = 3

    @property
    def attaches(self) -> bool:
        """Whether this connection ever holds IPUs of the machine."""
        return self in (DeviceConnectionType.ALWAYS, DeviceConnectionType.ON_DEMAND)


class ExecutionProfileType(enum.Enum):
    """Granularity of profiles of executions: none, per device, per IPU or per tile."""

    NO_PROFILE = 0
    DEVICE_PROFILE = 1
    IPU_PROFILE = 2
    TILE_PROFILE = 3


class MergeRemoteBuffersBehaviour(enum.Enum):
    """Sharing of storage by remote buffers of the same shape, which lets them share code.

    * `NO_MERGING`: every remote buffer stays on its own.
    * `MERGE`: every set of compatible buffers is merged.
    * `IF_BENEFICIAL`: only where code becomes shareable by it.
    """

    NO_MERGING = 0
    MERGE = 1
    IF_BENEFICIAL = 2


class SchedulingAlgorithm(enum.Enum):
    """Algorithm that orders the ops of a program; any order gives the same results.

    * `CHOOSE_BEST`: try the others, keep the schedule with the least predicted live memory.
    * `CLUSTERING`: keep groups of connected ops together.
    * `POST_ORDER`: walk from the outputs, inputs first.
    * `LOOK_AHEAD`: search ahead of each decision for a lower peak of live memory.
    * `SHORTEST_PATH`: prefer the op nearest to an output.
    """

    CHOOSE_BEST = 0
    CLUSTERING = 1
    POST_ORDER = 2
    LOOK_AHEAD = 3
    SHORTEST_PATH = 4


class SelectionOrder(enum.Enum):
    """Order in which shards 0, 1, 2, ... get the IPUs of a device.

    IPUs stand in a ladder, two to a rung. See `machine.selection_permutation` for the orders.

    * `AUTO`: left to the system.
    * `ZIGZAG`: rung by rung, always left to right.
    * `SNAKE`: rung by rung, turning at each, so neighbours are always linked.
    * `HOOF`: up one side and down the other, so the last shard sits beside the first.
    """

    AUTO = 0
    ZIGZAG = 1
    SNAKE = 2
    HOOF = 3


class StochasticRoundingBehaviour(enum.Enum):
    """Scope of stochastic rounding of float16 results.

    * `OFF`: nowhere.
    * `ON`: everywhere.
    * `REPLICA_IDENTICAL_ONLY`: only in ops whose inputs are the same on every replica.
    """

    OFF = 0
    ON = 1
    REPLICA_IDENTICAL_ONLY = 2

    @staticmethod
    def from_bool(value: bool) -> StochasticRoundingBehaviour:
        """Returns `ON` for True and `OFF` for False.

        Args:
            value: whether to round stochastically.

        Raises:
            TypeError: If it is no bool.
        """
        if value not in (True, False):
            raise TypeError(
                "StochasticRoundingBehaviour.from_bool takes True or False. Received: "
                f"{value!r} of type {type(value).__name__}"
            )
        return StochasticRoundingBehaviour.ON if value else StochasticRoundingBehaviour.OFF


class SyntheticDataCategory(enum.Enum):
    """A kind of host/device traffic that `TF_POPLAR_FLAGS` can replace by synthetic data."""

    Seed = 0
    Infeed = 1
    Outfeed = 2
    HostEmbedding = 3
    Parameters = 4

    @property
    def flag_name(self) -> str:
        """The word for this category in `--synthetic_data_categories`."""
        return self.name.lower()


class Effect(enum.Enum):
    """Effect of an option or flag in this simulator; the documentation is generated from it.

    * `EFFECT`: read, and changes what the user sees.
    * `NO_OP`: accepted; by design it never changes results or reports here. On the chip it may
      change memory and cycles, for which the model has no formula.
    * `MODEL`: read only by the memory and cycle model; never changes results.
    * `IGNORED`: would change results or files, and does not here; setting it logs one warning.
    """

    EFFECT = "effect"
    NO_OP = "no-op"
    MODEL = "model"
    IGNORED = "ignored-with-warning"


# --- Types of partial sums ---

#: Poplar's option for the type, of all ops of a library, and its values.
PARTIALS_OPTION = "partialsType"
PARTIALS_OF_OPTION: Mapping[str, str] = {"half": "float16", "float": "float32"}

#: Key of the frontend attributes of an op in `scopes.partials_type`, and its values.
PARTIALS_KEY = "PARTIALS_TYPE"
PARTIALS_OF_KEY: Mapping[str, str] = {"F16": "float16", "F32": "float32"}
