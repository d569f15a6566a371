"""`RandomMethods`: the seed of a session, and the state of the device's generators."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import numpy as np
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error
from tensorflow_ipu.frontends.popart.lowering.micro_batches import SEED
from tensorflow_ipu.frontends.popart.sessions.base import SessionBase
from tensorflow_ipu.runtime import native

_WORD = 2**32
# Streams of a replica: what all replicas draw alike, and what each draws by itself.
_STREAMS, _WORDS = 2, 4


class RandomMethods(SessionBase):
    """The methods of a session about random numbers."""

    #: The seed at the start, and the state of the generators that round.
    _seed = 0
    _generators: np.ndarray

    def setRandomSeed(self, seedValue: int) -> None:
        """Sets the seed of random numbers, and the state of the device's generators.

        Args:
            seedValue: the seed; its lowest 64 bits count.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        if self._has_no_random_behaviour("setRandomSeed"):
            return
        if self._executable is None:
            raise popart_runtime_error(
                "Devicex::prepare() must be called before Devicex::setRandomSeedFromHost(uint64_t) "
                "is called."
            )
        program = self._loaded()
        self._reset_generators(seedValue)
        if not self._survey.draws:
            return
        with eager_context.eager_mode():
            program.variables[SEED].assign(_words(seedValue))

    def getRandomSeed(self) -> int:
        """Returns the seed that continues the sequence of random numbers; 0 if there are none.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        if self._has_no_random_behaviour("getRandomSeed"):
            return 0
        if self._executable is None:
            raise popart_runtime_error(
                "Devicex::prepare() must be called before Devicex::getRandomSeedToHost() is called."
            )
        program = self._loaded()
        if not self._survey.draws:
            return 0
        with eager_context.eager_mode():
            low, high = program.variables[SEED].numpy().astype(np.uint32)
        return int(high) * _WORD + int(low)

    def getRNGState(self) -> list[int]:
        """Returns the state of the device's generators, on which stochastic rounding depends.

        With synthetic data nothing moves between host and device: it is empty.

        Raises:
            popart_runtime_error: If the option for it is off, or the program is not loaded.
        """
        self._check_state_is_kept()
        if self._is_synthetic:
            return []
        return [int(word) for word in self._generators]

    def setRNGState(self, rngValue: list[int]) -> None:
        """Sets the state of the device's generators.

        Args:
            rngValue: what `getRNGState` returned.

        Raises:
            popart_runtime_error: If the option for it is off, the program is not loaded, or the
                list has another length.
        """
        self._check_state_is_kept()
        if self._is_synthetic:
            return
        if len(rngValue) != len(self._generators):
            raise popart_runtime_error(
                f"Devicex::setRngStateValue received rngState of size {len(rngValue)}; was "
                f"expecting size {len(self._generators)}."
            )
        self._generators = np.array(rngValue, np.uint32)

    def _has_no_random_behaviour(self, method: str) -> bool:
        """Returns whether there is nothing to seed, and says so in the log."""
        if self._survey.draws or self._options.enableStochasticRounding:
            return False
        Logger("session").warn(
            f"{method} was called, but this session has no random behaviour. Doing nothing."
        )
        return True

    def _start_random_state(self) -> None:
        """Seeds random numbers by the clock."""
        self._seed = time.time_ns()
        self._reset_generators(self._seed)

    def _seed_words(self) -> dict[str, np.ndarray]:
        """Returns the variable of the program for the seed, if there is one."""
        return {SEED: _words(self._seed)} if self._survey.draws else {}

    @contextlib.contextmanager
    def _random_state(self) -> Iterator[None]:
        """Gives the generators of the device their state for one run, and lets it advance."""
        if self._options.enableStochasticRounding:
            low, high = (int(word) for word in self._generators[:2])
            native.reset_seed(self._device.ordinal, high * _WORD + low, False)
        yield
        if self._options.enableStochasticRounding:
            self._generators = _drawn(self._generators, len(self._generators))

    def _reset_generators(self, seed: int) -> None:
        count = self._replicas * _STREAMS * self._device.tilesPerIPU
        words = count * self._device.numWorkerContexts * _WORDS
        self._generators = _drawn(_words(seed).astype(np.uint32), words)

    def _check_state_is_kept(self) -> None:
        self._loaded()
        if not self._options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(
                "The state of the generators is not kept. Set "
                "SessionOptions.enableLoadAndOffloadRNGState to True."
            )


def _words(seed: int) -> np.ndarray:
    """Returns the low and the high word of a seed."""
    return np.array([seed % _WORD, seed // _WORD % _WORD], np.uint32).astype(np.int32)


def _drawn(state: np.ndarray, count: int) -> np.ndarray:
    """Returns words that follow from others."""
    seed = [int(word) for word in state[: 2 * _WORDS]]
    return np.random.default_rng(seed).integers(0, _WORD, count, np.uint32)
