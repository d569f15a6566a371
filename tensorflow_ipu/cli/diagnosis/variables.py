"""Checks of the environment variables that programs read, and of similar names.

Apart from the other checks, which run without any package.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping

from tensorflow_ipu.cli.diagnosis.checks import Finding, Level
from tensorflow_ipu.configs import chips, flags
from tensorflow_ipu.configs.enums import Effect

#: Hold library options, as JSON.
OPTIONS = (flags.ENGINE_OPTIONS, flags.TARGET_OPTIONS, flags.RUNTIME_OPTIONS)


_KNOWN = (flags.VARIABLE, *OPTIONS, flags.CHIP_VARIABLE)


# All variables that begin so are ours.
_OURS = "TENSORFLOW_IPU_"


# Of the package's own build, of shells for Poplar, of plans, and of the engine.
_OTHERS = (
    "TENSORFLOW_IPU_EDITABLE",
    "TENSORFLOW_IPU_PLAN",
    "TENSORFLOW_IPU_POPC",
    "TENSORFLOW_IPU_REPLICAS_AT_ONCE",
    "TENSORFLOW_IPU_REPLICAS_SHARE",
)


# How much alike a name is that was meant to be a known one.
_ALIKE = 0.85


def check(environment: Mapping[str, str]) -> list[Finding]:
    """Checks the variables.

    Args:
        environment: of programs.
    """
    found = [*_flags(environment), *_chip(environment), *_unknown(environment)]
    for name in OPTIONS:
        if environment.get(name):
            found += _options(name)
    return found


def cache_folder(environment: Mapping[str, str]) -> str | None:
    """Returns the folder of the cache of executables, or None if flags are wrong.

    Args:
        environment: of programs.

    Returns:
        The folder; empty if none is set.
    """
    try:
        return flags.parse(environment.get(flags.VARIABLE, "")).executable_cache_path
    except ValueError:
        return None


def _flags(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Checks TF_POPLAR_FLAGS."""
    text = environment.get(flags.VARIABLE, "")
    if not text:
        return
    try:
        parsed = flags.parse(text)
    except ValueError as error:
        yield Finding(flags.VARIABLE, Level.PROBLEM, str(error), _mended(text))
        return
    yield Finding(flags.VARIABLE, Level.OK, text)
    for info in flags.describe():
        if getattr(parsed, info.name) != info.default:
            if info.effect is Effect.IGNORED or info.deprecated:
                why = "is deprecated" if info.deprecated else "is ignored"
                said = f"--{info.name} {why}. {info.doc}"
                yield Finding(flags.VARIABLE, Level.WARNING, said, _mended(text, info.name))


def _mended(text: str, without: str = "") -> str:
    """Returns a command that sets the flags, with wrong ones corrected or left out.

    Args:
        text: of the variable.
        without: a flag that is to be left out.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        return f"unset {flags.VARIABLE}"
    known = [info.name for info in flags.describe() if info.name != without]
    kept: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        close = difflib.get_close_matches(name.lstrip("-"), known, n=1)
        candidates = (word, f"--{close[0]}{equals}{value}") if close else (word,)
        kept += next(([each] for each in candidates if _valid([*kept, each], without)), [])
    if not kept:
        return f"unset {flags.VARIABLE}"
    return f"export {flags.VARIABLE}={shlex.quote(shlex.join(kept))}"


def _valid(words: list[str], without: str) -> bool:
    """Returns whether some flags are valid together, without one of them."""
    try:
        flags.parse(shlex.join(words))
    except ValueError:
        return False
    return words[-1].partition("=")[0] != f"--{without}"


def _chip(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Checks TENSORFLOW_IPU_CHIP."""
    name = environment.get(flags.CHIP_VARIABLE, "")
    if not name:
        return
    try:
        yield Finding(flags.CHIP_VARIABLE, Level.OK, chips.get(name).title)
    except ValueError as error:
        close = difflib.get_close_matches(name, chips.names(), n=1)
        mend = (
            f"export {flags.CHIP_VARIABLE}={close[0]}" if close else f"unset {flags.CHIP_VARIABLE}"
        )
        yield Finding(flags.CHIP_VARIABLE, Level.PROBLEM, str(error), mend)


def _options(name: str) -> Iterator[Finding]:
    """Checks that a variable of options is JSON; its content is checked with TensorFlow."""
    try:
        flags.library_options(name)
    except ValueError as error:
        yield Finding(name, Level.PROBLEM, str(error), f"unset {name}")


def _unknown(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Finds variables that nothing reads, and whose name is nearly a known one."""
    for name in sorted(environment):
        if name in (*_KNOWN, *_OTHERS):
            continue
        cutoff = 0.5 if name.startswith(_OURS) else _ALIKE
        close = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=cutoff)
        if close:
            mend = f"export {close[0]}={shlex.quote(environment[name])}; unset {name}"
            text = f"nothing reads this variable. Did you mean {close[0]}?"
            yield Finding(name, Level.WARNING, text, mend)
        elif name.startswith(_OURS):
            text = "nothing reads this variable"
            yield Finding(name, Level.WARNING, text, f"unset {name}")
