"""`PvaObject`, the base of all parts of a report, and lists that print a few elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

_Element = TypeVar("_Element")


class NotModelledError(AttributeError):
    """A documented attribute is asked for that reports of tensorflow_ipu have no number for.

    It is an `AttributeError`, so `hasattr` tells what there is.
    """


class PvaObject:
    """The base of all objects of a report.

    Attributes:
        NOT_MODELLED: Documented attributes that a report has not, with the reason.
    """

    NOT_MODELLED: ClassVar[Mapping[str, str]] = {}

    # Type checkers must not take any name for an attribute.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Says why an attribute is not there; called when it was not found."""
            cls = type(self)
            if name.startswith("_") or hasattr(cls, name):
                return object.__getattribute__(self, name)  # raises what it raised
            reason = cls.NOT_MODELLED.get(name)
            if reason is not None:
                raise NotModelledError(
                    f"pva.{cls.__name__}.{name} is not modelled: {reason}. "
                    "docs/pva.md lists what reports of tensorflow_ipu have."
                )
            known = [n for n in dir(self) if not n.startswith("_") and n != "NOT_MODELLED"]
            raise AttributeError(
                f"pva.{cls.__name__} has no attribute {name!r}. It has {', '.join(known)}."
            )


class PrintLength:
    """How many elements the lists of one report show.

    Attributes:
        value: The number.
    """

    def __init__(self, value: int = 10) -> None:
        self.value = value


class PvaList(Sequence[_Element], Generic[_Element]):
    """A list of a report, made when it is first looked at. It cannot be changed.

    Args:
        make: makes the elements.
        length: how many of them `repr` shows.
    """

    def __init__(self, make: Callable[[], Sequence[_Element]], length: PrintLength) -> None:
        self._make = make
        self._length = length
        self._made: Sequence[_Element] | None = None

    @property
    def _elements(self) -> Sequence[_Element]:
        if self._made is None:
            self._made = self._make()
        return self._made

    @overload
    def __getitem__(self, index: int) -> _Element: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_Element]: ...

    def __getitem__(self, index: int | slice) -> _Element | Sequence[_Element]:
        """One element, or some."""
        return self._elements[index]

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[_Element]:
        return iter(self._elements)

    def __repr__(self) -> str:
        """The first elements, and how many there are."""
        shown = [repr(element) for element in self._elements[: self._length.value]]
        if len(shown) < len(self):
            shown.append(f"... {len(self):,} in all")
        return f"[{', '.join(shown)}]"
