"""Options as values: `poputil/OptionParsing.hpp`."""

from __future__ import annotations

from collections.abc import Callable


def _run(run_poplar: Callable[..., str], *arguments: str) -> list[str]:
    return run_poplar("poputil/options.cpp", *arguments, standard="c++17").splitlines()


def test_values_of_all_kinds_are_parsed(run_poplar: Callable[..., str]) -> None:
    arguments = "mode=fast number=-7 real=2.5e-1 flag=true text=x,y list=3,1,2".split()
    assert _run(run_poplar, *arguments) == ["1 -7 0.25 1 x,y 3 1 2"]


def test_errors_name_option_and_values(run_poplar: Callable[..., str]) -> None:
    *errors, values = _run(run_poplar, "mode=quick", "number=1.5", "flag=1", "none=1", "list=a")
    assert errors == [
        "invalid_option: Option 'mode': 'quick' is not one of fast, slow.",
        "invalid_option: Option 'number': '1.5' is not an integer.",
        "invalid_option: Option 'flag': '1' is not one of false, true.",
        "invalid_option: There is no option 'none'.",
        "invalid_option: Option 'list': 'a' is not an integer.",
    ]
    assert values == "0 1 0.5 0 "
