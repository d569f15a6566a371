"""Tables of cases: functions that fill a session."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.poplar.session import Session

Case = Callable[[Session], None]


class Cases(dict[str, Case]):
    """Cases of a library by name."""

    def add(self, case: Case) -> Case:
        """Decorator: adds a function by its name."""
        self[case.__name__] = case
        return case

    def functions(self) -> set[str]:
        """Returns the functions that the cases call and whose values they demand."""
        called: set[str] = set()
        for case in self.values():
            session = Session()
            case(session)
            called |= session.functions
        return called
