"""Environment variables: TF_POPLAR_FLAGS, POPLAR_*_OPTIONS and the choice of chip."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
import os
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.enums import Effect, SyntheticDataCategory
from tensorflow_ipu.configs.ranges import FOLDER, INT32, Folder, Range, shown
from tensorflow_ipu.util.notices import warn_once

VARIABLE = "TF_POPLAR_FLAGS"

#: Names the chip of the simulated machine: any name that `chips.get` accepts.
CHIP_VARIABLE = "TENSORFLOW_IPU_CHIP"

#: Names a file: the process ends at the first launch of a program, whose report is saved there.
#: The native library reads it, too (native/engine/abstract_values.cc).
PLAN_VARIABLE = "TENSORFLOW_IPU_PLAN"

ENGINE_OPTIONS = "POPLAR_ENGINE_OPTIONS"
TARGET_OPTIONS = "POPLAR_TARGET_OPTIONS"
RUNTIME_OPTIONS = "POPLAR_RUNTIME_OPTIONS"

_MODEL_FLAG = "--use_ipu_model"
_INITIALIZERS = ("uniform", "normal", "random")
_PROGRESS_BAR = ("true", "false", "auto")
#: Values of --capacity_policy.
CAPACITY_POLICIES = ("default", "raise", "warn", "mark")
#: Values of --operator_policy.
OPERATOR_POLICIES = ("warn", "raise", "allow")
_THREADS = Range(-1, INT32, "threads")

_T = TypeVar("_T")


def _flag(
    default: _T,
    effect: Effect,
    doc: str,
    *,
    hashed: bool = False,
    deprecated: bool = False,
    allowed: Range | Folder | None = None,
) -> _T:
    """Declares one flag.

    Args:
        default: value when the flag is not given; its type is the flag's type.
        effect: what the flag does in this simulator.
        doc: description for users.
        hashed: whether executables compiled with different values are different.
        deprecated: accepted for old programs only.
        allowed: which values it may have. Each flag that is a number or a folder has to say it.
    """
    metadata = {
        "effect": effect,
        "doc": doc,
        "hashed": hashed,
        "deprecated": deprecated,
        "allowed": allowed,
    }
    field: _T = dataclasses.field(default=default, metadata=metadata)
    return field


_EFFECT, _NO_OP, _MODEL, _IGNORED = Effect.EFFECT, Effect.NO_OP, Effect.MODEL, Effect.IGNORED


@dataclass(frozen=True)
class Flags:
    """The values of all flags of TF_POPLAR_FLAGS. `describe` gives types and documentation."""

    help: bool = _flag(False, _EFFECT, "Print this list.")
    use_synthetic_data: bool = _flag(
        False, _EFFECT, "Data of all the categories below does not move.", hashed=True
    )
    synthetic_data_categories: tuple[str, ...] = _flag(
        (),
        _EFFECT,
        "Comma-separated kinds of data that do not move: infeed, outfeed, seed, "
        "hostembedding, parameters. Infeeds and tables on the host give made-up elements, and "
        "outfeeds stay empty. Parameters are what `--synthetic_data_initializer` says, and keep "
        "their values without it. Seeds move: there would be no random numbers without them.",
        hashed=True,
    )
    synthetic_data_initializer: str = _flag(
        "",
        _EFFECT,
        "What fills the buffers that receive no data: uniform, normal, random or a "
        "number. Empty: undefined contents. Integers may be any; where ops use them as indices or "
        "labels, they are taken modulo the size.",
        hashed=True,
    )
    use_ipu_model: bool = _flag(
        False, _EFFECT, "The IPU model in place of the machine of 16 IPUs.", hashed=True
    )
    ipu_model_tiles: int = _flag(
        -1,
        _MODEL,
        "Tiles per IPU of the model, unless ipu_model.tiles_per_ipu is set; -1 means "
        "all the chip has.",
        hashed=True,
        allowed=Range(-1, chips.MOST_TILES, "tiles"),
    )
    log_cycle_count: int = _flag(
        -1,
        _EFFECT,
        "Tile whose modelled cycles are logged after each execution, level INFO; negative: off. "
        "All tiles take as long: a launch begins and ends with a synchronisation.",
        hashed=True,
        allowed=Range(-INT32, INT32),
    )
    while_loop_brute_force_max_trip_count: int = _flag(
        128,
        _NO_OP,
        "Iterations tried when finding the trip count of a loop. Loops here run "
        "until their condition fails, whatever their trip count.",
        hashed=True,
        allowed=Range(0, INT32, "iterations"),
    )
    max_compilation_threads: int = _flag(
        -1,
        _NO_OP,
        "Threads for compiling; -1: one for each core. One is used here.",
        allowed=_THREADS,
    )
    max_infeed_threads: int = _flag(
        -1,
        _NO_OP,
        "Threads that read infeeds; -1: no limit. Each infeed has one here.",
        allowed=_THREADS,
    )
    capacity_policy: str = _flag(
        "default",
        _MODEL,
        "What happens to a program that does not fit on the chip: raise an error, warn, mark it in "
        "its report, or default: raise if its variables do not fit, else warn.",
    )
    operator_policy: str = _flag(
        "warn",
        _EFFECT,
        "What happens to a program with ops that run here and would not compile for the chip, such "
        "as tf.boolean_mask: warn, raise an error, or allow them without a word. See "
        "docs/operators.md.",
    )
    executable_cache_path: str = _flag(
        "",
        _EFFECT,
        "Directory in which compiled executables are kept and found again. Files that are damaged "
        "or of others are replaced, with a warning; a directory that cannot be written is one "
        "warning, and programs run without it.",
        allowed=FOLDER,
    )
    save_vertex_graph: str = _flag(
        "",
        _IGNORED,
        "Directory for vertex graphs. There are no vertices here.",
        allowed=FOLDER,
    )
    save_interval_report: str = _flag(
        "",
        _EFFECT,
        "Directory where each program writes <program>.csv when it is compiled: the bytes that are "
        "live at each of its ops.",
        allowed=FOLDER,
    )
    tensor_map_file_path: str = _flag(
        "",
        _EFFECT,
        "Directory where each program writes <program>.json when it is compiled: the tiles that "
        "the results of its ops are on.",
        allowed=FOLDER,
    )
    dump_schedule_as_dot: bool = _flag(
        False,
        _EFFECT,
        "Write the order of each program's ops as a graph, <program>.schedule.dot, to where "
        "--xla_dump_to in XLA_FLAGS says, else to the current folder.",
    )
    fallback_scheduler: bool = _flag(
        False, _NO_OP, "A simpler scheduler. Any order gives the same results.", hashed=True
    )
    allow_nans: bool = _flag(False, _NO_OP, "Data may hold NaN. It always may, here.", hashed=True)
    null_data_feed: bool = _flag(
        False, _EFFECT, "Infeeds give undefined contents and do not read their dataset."
    )
    show_progress_bar: str = _flag(
        "auto",
        _EFFECT,
        "Progress bar while compiling: true, false, or auto (in notebooks, and when stderr is a "
        "terminal).",
    )
    on_demand_device_poll_time: int = _flag(
        1000,
        _EFFECT,
        "How often to look for free IPUs when attaching on demand, in ms.",
        allowed=Range(100, INT32, "ms"),
    )
    on_demand_device_timeout: int = _flag(
        3_600_000,
        _EFFECT,
        "How long to wait for free IPUs when attaching on demand, in ms.",
        allowed=Range(0, INT32, "ms"),
    )
    sync_replica_start: bool = _flag(
        False, _NO_OP, "Start replicas together. They always do, here.", hashed=True
    )
    enable_hlo_verifier: bool = _flag(
        False, _NO_OP, "Check programs between passes. They always are, here."
    )
    use_on_demand: bool = _flag(
        False, _IGNORED, "Attach on demand. Set device_connection.type instead."
    )
    disable_poplar_version_check: bool = _flag(
        False,
        _NO_OP,
        "Run executables of other library versions. There is one version here.",
        hashed=True,
    )
    dump_text_reports_to_stdio: bool = _flag(False, _NO_OP, "No effect.", deprecated=True)
    add_all_reduce_copies: bool = _flag(False, _NO_OP, "No effect.", deprecated=True)
    force_replicated_mode: bool = _flag(False, _NO_OP, "No effect.", deprecated=True)
    save_oom_profiler: str = _flag("", _NO_OP, "No effect.", deprecated=True)

    def synthetic(self, category: SyntheticDataCategory) -> bool:
        """Returns whether data of this category is synthetic."""
        return self.use_synthetic_data or category.flag_name in self.synthetic_data_categories

    def executable_key(self) -> dict[str, Any]:
        """Returns the flags that make executables different, by name."""
        return {info.name: getattr(self, info.name) for info in describe() if info.hashed}


@dataclass(frozen=True)
class FlagInfo:
    """Name, type, default and description of one flag."""

    name: str
    type: str  # "bool", "int", "string" or "list"
    default: Any
    effect: Effect
    doc: str
    hashed: bool
    deprecated: bool
    allowed: Range | Folder | None


_TYPE_NAMES = {bool: "bool", int: "int", str: "string", tuple: "list"}


@functools.cache
def describe() -> tuple[FlagInfo, ...]:
    """Returns all flags in order of declaration; the documentation is generated from this."""
    return tuple(
        FlagInfo(name=f.name, type=_TYPE_NAMES[type(f.default)], default=f.default, **f.metadata)
        for f in dataclasses.fields(Flags)
    )


def help_text() -> str:
    """Returns the text of `--help`: one entry per flag."""
    lines = [f"Flags of {VARIABLE}, separated by spaces:"]
    for info in describe():
        default = ",".join(info.default) if info.type == "list" else info.default
        notes = f"{info.type}, default {default!r}, {info.effect.value}"
        notes += f", {info.allowed}" if isinstance(info.allowed, Range) else ""
        deprecated = " Deprecated." if info.deprecated else ""
        lines.append(f"  --{info.name} ({notes})\n      {info.doc}{deprecated}")
    return "\n".join(lines)


def parse(text: str) -> Flags:
    """Returns the flags written in `text`.

    Args:
        text: `--name` (for a bool) and `--name=value`, separated by spaces, quoted as in a shell.
            A flag given twice has its last value.

    Returns:
        The flags.

    Raises:
        ValueError: an unknown flag, a value of the wrong type or outside its range, or flags that
            need each other.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"Cannot split {VARIABLE}={text!r} into words: {error}.") from None
    known = {info.name: info for info in describe()}
    values: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not name.startswith("--") or name[2:] not in known:
            raise ValueError(_unknown_flag(word, name, known))
        info = known[name[2:]]
        values[info.name] = _value(info, value if separator else None)
        if info.allowed is not None:
            info.allowed.check(f"--{info.name}", values[info.name])
    flags = Flags(**values)
    _check(flags)
    return flags


def _unknown_flag(word: str, name: str, known: Mapping[str, FlagInfo]) -> str:
    """Returns the message for a word that is not a known flag."""
    close = difflib.get_close_matches(name.lstrip("-"), known, n=1)
    hint = f" Did you mean '--{close[0]}'?" if close else ""
    return f"Unknown flag '{word}' in {VARIABLE}.{hint} Use --help for a list of all flags."


def _value(info: FlagInfo, text: str | None) -> Any:
    """Parses the value of one flag; None when it was given without `=`."""
    if info.type == "bool":
        words = {None: True, "true": True, "1": True, "false": False, "0": False}
        key = text.lower() if text is not None else None
        if key not in words:
            raise ValueError(f"--{info.name} takes true or false; received {shown(text)}.")
        return words[key]
    if text is None:
        raise ValueError(f"--{info.name} needs a value: write --{info.name}=<{info.type}>.")
    if info.type == "int":
        try:
            return int(text)
        except ValueError:
            raise ValueError(
                f"--{info.name} takes an integer {info.allowed}; received {shown(text)}."
            ) from None
    if info.type == "list":
        return tuple(item.strip() for item in text.split(",") if item.strip())
    return text


def _check(flags: Flags) -> None:
    """Checks the ranges of values and the flags that depend on others."""
    categories = [category.flag_name for category in SyntheticDataCategory]
    for name in flags.synthetic_data_categories:
        if name not in categories:
            close = difflib.get_close_matches(name, categories, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise ValueError(
                f"--synthetic_data_categories: unknown synthetic data category '{name}'; choose "
                f"from {', '.join(categories)}.{hint}"
            )
    if flags.synthetic_data_initializer:
        _check_initializer(flags)
    _check_choice("show_progress_bar", flags.show_progress_bar, _PROGRESS_BAR)
    _check_choice("capacity_policy", flags.capacity_policy, CAPACITY_POLICIES)
    _check_choice("operator_policy", flags.operator_policy, OPERATOR_POLICIES)
    if flags.ipu_model_tiles != -1 and not flags.use_ipu_model:
        raise ValueError("--ipu_model_tiles only applies together with --use_ipu_model.")


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Checks that the value of a flag is a known one."""
    if value not in choices:
        raise ValueError(f"--{name} takes {', '.join(choices)}; received '{value}'.")


def _check_initializer(flags: Flags) -> None:
    """Checks that the initialiser is a known word or number, and has a use."""
    value = flags.synthetic_data_initializer
    if value not in _INITIALIZERS:
        try:
            finite = math.isfinite(float(value))
        except ValueError:
            finite = False
        if not finite:
            raise ValueError(
                f"--synthetic_data_initializer takes {', '.join(_INITIALIZERS)} or a number that "
                f"is finite; received {shown(value)}."
            )
    if not flags.use_synthetic_data and not flags.synthetic_data_categories:
        raise ValueError(
            "--synthetic_data_initializer needs --use_synthetic_data or "
            "--synthetic_data_categories."
        )


class _Cache:
    """The flags of this process once parsed; `lock` guards `flags`."""

    def __init__(self) -> None:
        """Starts with nothing parsed."""
        self.lock = threading.Lock()
        self.flags: Flags | None = None


_cache = _Cache()


def preview() -> Flags:
    """Returns the flags as `parsed` would now, without fixing them for the process."""
    return _cache.flags or parse(os.environ.get(VARIABLE, ""))


def parsed() -> Flags:
    """Returns the flags of this process: read at the first use of a device, and fixed from then on.

    Returns:
        The flags.

    Raises:
        ValueError: as for `parse`; nothing is fixed then, so the variable can be corrected.
    """
    with _cache.lock:
        if _cache.flags is None:
            _cache.flags = parse(os.environ.get(VARIABLE, ""))
            _announce(_cache.flags)
        return _cache.flags


def _announce(flags: Flags) -> None:
    """Prints the help if asked for and warns of flags that do nothing here."""
    if flags.help:
        print(help_text(), file=sys.stdout)
    for info in describe():
        if getattr(flags, info.name) == info.default:
            continue
        if info.effect is Effect.IGNORED:
            warn_once("%s: --%s is ignored. %s", VARIABLE, info.name, info.doc)
        elif info.deprecated:
            warn_once("%s: --%s is deprecated and has no effect.", VARIABLE, info.name)


def _reset_for_tests() -> None:
    """Forgets the parsed flags, as a new process would."""
    with _cache.lock:
        _cache.flags = None


def running_on_ipu_model() -> bool:
    """Returns whether TF_POPLAR_FLAGS contains `--use_ipu_model`, which selects the IPU model.

    Returns:
        True if the text of the variable, as it is now, contains the flag.
    """
    return _MODEL_FLAG in os.environ.get(VARIABLE, "")


def chip() -> chips.Chip:
    """Returns the chip that TENSORFLOW_IPU_CHIP names; without it the default chip.

    Raises:
        ValueError: the variable names no known chip.
    """
    name = os.environ.get(CHIP_VARIABLE, "")
    if not name:
        return chips.DEFAULT
    try:
        return chips.get(name)
    except ValueError as error:
        raise ValueError(f"{CHIP_VARIABLE}: {error}") from None


def plan_file() -> str:
    """Returns the file for the report of the first program; empty if programs are to run."""
    return os.environ.get(PLAN_VARIABLE, "")


def library_options(variable: str) -> dict[str, str]:
    """Returns the library options in one of the POPLAR_*_OPTIONS variables.

    Args:
        variable: `ENGINE_OPTIONS`, `TARGET_OPTIONS` or `RUNTIME_OPTIONS`.

    Returns:
        Option values by name; empty when the variable is empty or not set.

    Raises:
        ValueError: the variable does not hold a JSON object of strings.
    """
    text = os.environ.get(variable, "").strip()
    if not text:
        return {}
    example = '{"debug.instrument": "true"}'
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{variable} must be a JSON object such as {example}; received {text!r}, where "
            f"column {error.colno} is wrong: {error.msg}."
        ) from None
    if not isinstance(values, dict):
        raise ValueError(f"{variable} must be a JSON object such as {example}; received {text!r}.")
    for name, value in values.items():
        if not isinstance(value, str):
            raise ValueError(
                f'{variable}: the value of "{name}" must be a string; received '
                f"{json.dumps(value)}. Write it in quotes, as in {example}."
            )
    return values
