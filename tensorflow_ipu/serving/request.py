"""`ExportRequest`: the user's arguments of an export."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tensorflow.python.framework import ops
from tensorflow.python.util import nest

from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.serving import saved_model


@dataclasses.dataclass(frozen=True)
class ExportRequest:
    """The arguments that all export functions take; see `serving.export_single_step`."""

    export_dir: Any
    iterations: Any
    predict_step_signature: Any = None
    input_dataset: Any = None
    output_names: Any = None
    preprocessing_step: Any = None
    preprocessing_step_signature: Any = None
    postprocessing_step: Any = None
    postprocessing_step_signature: Any = None
    purge_export_dir: bool = False

    def check(self) -> None:
        """Checks the arguments that need no tracing.

        Raises:
            RuntimeError: In graph mode.
            TypeError: If a step is not a function.
            ValueError: If the directory is not empty, or `iterations` not positive.
        """
        if not ops.executing_eagerly_outside_functions():
            raise RuntimeError(
                "Models are exported for serving in eager mode only, as in TensorFlow 2. Call "
                "tf.compat.v1.enable_v2_behavior() at the start of the program."
            )
        saved_model.check_directory(str(self.export_dir), bool(self.purge_export_dir))
        count = self.iterations
        try:
            COUNT.whole("iterations", count)
        except ValueError as error:
            raise ValueError(f"iterations must be a positive integer. {error}") from None
        for name in ("preprocessing_step", "postprocessing_step"):
            step = getattr(self, name)
            if step is not None and not callable(step):
                raise TypeError(f"{name} must be a function. Received: {step!r}")
            if step is None and getattr(self, f"{name}_signature") is not None:
                raise ValueError(f"{name}_signature was given without a {name}. Pass both.")


def output_names(results: Any, names: Any) -> list[str]:
    """Returns the names of the outputs of the signature.

    Args:
        results: the results of the last step.
        names: the argument of the user.

    Raises:
        TypeError: If names are no strings.
        ValueError: If there are more or fewer names than outputs, or two are equal.
    """
    count = len(nest.flatten(results))
    if names is None:
        if isinstance(results, Mapping) and len(results) == count:
            return [str(key) for key in sorted(results)]
        return [f"output_{index}" for index in range(count)]
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"output_names must be a string or a list of them. Received: {names!r}")
    if len(names) != count or len(set(names)) != count:
        raise ValueError(
            f"output_names must have a different name for each of the {count} outputs. "
            f"Received {len(names)}: {list(names)}"
        )
    return list(names)
