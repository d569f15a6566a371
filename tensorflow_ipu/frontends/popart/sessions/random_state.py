"""`RandomState`: the seed of a session, and the state of the device's generators."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error
from tensorflow_ipu.frontends.popart.lowering.programs import SEED
from tensorflow_ipu.frontends.popart.sessions.setup import Setup
from tensorflow_ipu.runtime import native

_WORD = 2**32
# Streams of a replica: numbers that all replicas draw alike, and numbers of its own.
_STREAMS, _WORDS = 2, 4


class RandomState:
    """The seed of random numbers, and the state of the generators that round."""

    def __init__(self, setup: Setup) -> None:
        """Seeds random numbers by the clock.

        Args:
            setup: model, options and device.
        """
        self._setup = setup
        self._seed = time.time_ns()
        self._generators = self._generators_of(self._seed)

    def __repr__(self) -> str:
        return f"RandomState[{len(self._generators)} words]"

    def is_used(self, method: str) -> bool:
        """Returns whether the program has random behaviour; logs it if not.

        Args:
            method: the session's method, for the log.
        """
        if self._setup.facts.draws or self._setup.options.enableStochasticRounding:
            return True
        Logger("session").warn(
            f"{method} was called, but this session has no random behaviour. Doing nothing."
        )
        return False

    def variables(self) -> dict[str, np.ndarray]:
        """Returns the program's variable of the seed, if it has one, by id."""
        return {SEED: _words(self._seed)} if self._setup.facts.draws else {}

    def set_seed(self, seed: int, variables: Mapping[str, tf.Variable]) -> None:
        """Sets the seed, and the state of the generators.

        Args:
            seed: the seed; its lowest 64 bits count.
            variables: the variables of the program, by id.
        """
        self._generators = self._generators_of(seed)
        if self._setup.facts.draws:
            with eager_context.eager_mode():
                variables[SEED].assign(_words(seed))

    def seed(self, variables: Mapping[str, tf.Variable]) -> int:
        """Returns the seed that continues the sequence of random numbers; 0 if there are none.

        Args:
            variables: the variables of the program, by id.
        """
        if not self._setup.facts.draws:
            return 0
        with eager_context.eager_mode():
            low, high = variables[SEED].numpy().astype(np.uint32)
        return int(high) * _WORD + int(low)

    def state(self) -> list[int]:
        """Returns the state of the generators; with synthetic data it is empty.

        Raises:
            popart_runtime_error: If the option for it is off.
        """
        self._check_state_is_kept()
        return [] if self._setup.is_synthetic else [int(word) for word in self._generators]

    def set_state(self, state: list[int]) -> None:
        """Sets the state of the generators.

        Args:
            state: the words that `state()` returned.

        Raises:
            popart_runtime_error: If the option for it is off, or the length differs.
        """
        self._check_state_is_kept()
        if self._setup.is_synthetic:
            return
        if len(state) != len(self._generators):
            raise popart_runtime_error(
                f"Devicex::setRngStateValue received rngState of size {len(state)}; was "
                f"expecting size {len(self._generators)}."
            )
        self._generators = np.array(state, np.uint32)

    @contextlib.contextmanager
    def of_run(self) -> Iterator[None]:
        """Gives the device's generators their state for one run, and advances it.

        Yields:
            Nothing.
        """
        rounds = self._setup.options.enableStochasticRounding
        if rounds:
            low, high = (int(word) for word in self._generators[:2])
            native.reset_seed(self._setup.device.ordinal, high * _WORD + low, False)
        yield
        if rounds:
            self._generators = _drawn(self._generators, len(self._generators))

    def _generators_of(self, seed: int) -> np.ndarray:
        device = self._setup.device
        count = self._setup.replicas * _STREAMS * device.tilesPerIPU
        words = count * device.numWorkerContexts * _WORDS
        return _drawn(_words(seed).astype(np.uint32), words)

    def _check_state_is_kept(self) -> None:
        if not self._setup.options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(
                "The state of the generators is not kept. Set "
                "SessionOptions.enableLoadAndOffloadRNGState to True."
            )


def _words(seed: int) -> np.ndarray:
    """Returns the low and the high word of a seed."""
    return np.array([seed % _WORD, seed // _WORD % _WORD], np.uint32).astype(np.int32)


def _drawn(state: np.ndarray, count: int) -> np.ndarray:
    """Returns pseudo-random words drawn from a state."""
    seed = [int(word) for word in state[: 2 * _WORDS]]
    return np.random.default_rng(seed).integers(0, _WORD, count, np.uint32)
