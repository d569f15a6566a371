"""Types that are annotations only: the module `popxl.typing_`."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["NewAliasAnnotation"]


class NewAliasAnnotation:
    """An annotation that stands for a type, and is an object of its own."""

    def __init__(self, name: str, tp: Any) -> None:
        """Makes an annotation.

        Args:
            name: its name.
            tp: the type that it stands for.
        """
        self.__name__ = name
        self.__supertype__ = tp

    def __repr__(self) -> str:
        return self.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses calls.

        Args:
            *args: anything.
            **kwargs: anything.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{self.__name__} should only be used as an annotation.")
