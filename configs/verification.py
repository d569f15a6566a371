"""Keys for verified transfers: recorded, not simulated."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorflow_ipu.util.short_repr import shows


@dataclass
class KeyId:
    """The key of a verified transfer and the first id of its counter.

    Args:
        key: key number; 0 turns verification of this kind of data off.
        start_id: first id; -1 lets the system choose.
    """

    key: int = 0
    start_id: int = -1

    def __post_init__(self) -> None:
        """Checks the types at once, so that a mistake shows where it was made."""
        for name, value in (("key", self.key), ("start_id", self.start_id)):
            if type(value) is not int:
                raise TypeError(f"`{name}` of a KeyId is {value!r}, but it must be of type int.")


class _Feeds(dict[str, KeyId]):
    """Keys by feed name; a feed read for the first time gets an unset key."""

    def __missing__(self, name: str) -> KeyId:
        self[name] = KeyId()
        return self[name]


@dataclass
class VerificationOptions:
    """Keys for each kind of data that moves between host and device.

    They are used once verified transfers are on (`set_transfer_options`) and this object has been
    passed to `set_verification_options`. Each kind can be replaced or changed in place::

        o = VerificationOptions()
        o.inputs.key = 1
        o.infeeds["training"] = KeyId(2)

    Args:
        inputs: of what programs are given.
        input_parameters: of variables on their way to the device.
        outputs: of results.
        output_parameters: of variables on their way back.
        infeeds: of each infeed, by its name.
        outfeeds: of each outfeed, by its name.
        checkpoint_in: of checkpoints that are read.
        checkpoint_out: of checkpoints that are written.
    """

    inputs: KeyId = field(default_factory=KeyId)
    input_parameters: KeyId = field(default_factory=KeyId)
    outputs: KeyId = field(default_factory=KeyId)
    output_parameters: KeyId = field(default_factory=KeyId)
    infeeds: dict[str, KeyId] = field(default_factory=_Feeds)
    outfeeds: dict[str, KeyId] = field(default_factory=_Feeds)
    checkpoint_in: KeyId = field(default_factory=KeyId)
    checkpoint_out: KeyId = field(default_factory=KeyId)

    __repr__ = shows(
        lambda self: {name: kind for name, kind in vars(self).items() if kind not in (KeyId(), {})}
    )
