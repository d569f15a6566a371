"""`Executable`: a Cluster compiled for one configuration, with its plan."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from tensorflow_ipu.compiler.compiled_program import CompiledProgram
from tensorflow_ipu.compiler.listing import copies as copies_lib
from tensorflow_ipu.compiler.listing import program_listing, variable_placement
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util import gc_pause
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from tensorflow_ipu.planner.plan import Plan
    from tensorflow_ipu.planner.settings import Settings
    from tensorflow_ipu.planner.workload import Workload


@dataclasses.dataclass(frozen=True, eq=False)
class Executable(CompiledProgram):
    """A compiled program that the engine launches, with its Workload and Plan."""

    def tile_counts(self, dtype: str, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Returns the tiles of an op's result of some type and shape, with their elements."""
        from tensorflow_ipu.compiler.workload import describe

        return describe.tile_counts(dtype, shape, self.settings.compute_tiles)

    # The planner is imported by the properties that need it: importing TensorFlow imports this
    # module, and most programs are never planned.

    @functools.cached_property
    def workload(self) -> Workload:
        """The program as data, which memory and time on the chip follow from."""
        from tensorflow_ipu.compiler.workload import describe

        return describe.workload(self)

    @functools.cached_property
    def settings(self) -> Settings:
        """The planner's settings, from the configuration that the program was compiled for."""
        from tensorflow_ipu.compiler.workload import describe

        return describe.settings(self)

    @functools.cached_property
    def plan(self) -> Plan:
        """Memory and time on the chip."""
        from tensorflow_ipu.planner import planning

        with gc_pause.without_collections():
            return planning.plan(self.workload, self.settings)

    @property
    def launches(self) -> int:
        """How often the Executable was launched."""
        return native.statistics(self.id)[0]

    @property
    def seconds(self) -> float:
        """The host's wall time in all launches, in seconds. Says nothing of the chip's speed."""
        return native.statistics(self.id)[1]

    @property
    def uniform(self) -> tuple[int, int, int, int, int]:
        """Counts of shared work.

        Uniform ops, all ops, bytes of uniform variables, bytes of all variables, and bytes of the
        copies that replicas have of the others.
        """
        return native.uniform_statistics(self.id)

    __repr__ = shows(
        lambda self: {
            "": self.name,
            "device": f"/device:IPU:{self.ordinal}" if self.on_device else "host",
            "replicas": self.replicas,
            "ipus_used": self.ipus_used,
            "arguments": len(self.arguments),
            "results": len(self.results),
            "fingerprint": self.fingerprint[:16],
        }
    )

    def __str__(self) -> str:
        """Returns the whole program as text."""
        head = (
            f"Executable {self.name} on /device:IPU:{self.ordinal}: {self.replicas} replica(s) of "
            f"{self.ipus_used} IPU(s), fingerprint {self.fingerprint[:16]}\n"
        )
        arguments = "".join(
            f"  {'variable' if argument.is_variable else 'input'} {argument.name}: "
            f"{argument.dtype.name}{list(argument.shape)}\n"
            for argument in self.arguments
        )
        results = "".join(
            f"  result {index}: {result.dtype.name}{result.shape}\n"
            for index, result in enumerate(self.results)
        )
        copies = copies_lib.format_copies(self.copies)
        ops = program_listing.format_listing(self.ops)
        sections = [head + arguments + results + ops, copies]
        if any(variable.role != variable_placement.WEIGHT for variable in self.variables):
            sections.append(variable_placement.format_variables(self.variables))
        if self.pipeline is not None:
            sections.append(str(self.pipeline))
        return "\n\n".join(section for section in sections if section)
