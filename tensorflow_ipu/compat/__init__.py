"""Programs for TensorFlow 1.15 and 2.6 on TensorFlow 2.15: running and migrating.

`tensorflow-ipu run program.py` runs such a program unchanged; `tensorflow-ipu migrate program.py`
lists the changes to make in it. The same from Python, before the program imports anything:

    import tensorflow_ipu.compat

    tensorflow_ipu.compat.install()

`tensorflow_ipu.compat.contrib` has parts of `tensorflow.contrib`, without `install`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow_ipu.compat.usage import Usage


def install(tensorflow: int = 2, old_optimizers: bool = False) -> Usage:
    """Adds modules and names that TensorFlow, Keras, NumPy and Python dropped, for this process.

    Installed packages see existing modules and names unchanged. Files of the program get other ones
    by `import tensorflow` and `tensorflow.python.keras`.

    Args:
        tensorflow: 1 for a program that was written for TensorFlow 1.15, where `import tensorflow`
            means `tensorflow.compat.v1`; 2 for one for TensorFlow 2.
        old_optimizers: whether `tf.keras.optimizers` has the classes of TensorFlow 2.6
            (`tf.keras.optimizers.legacy`), which custom optimizers derive from.

    Returns:
        The shims used, updated during the run; `text()` lists them. A second call changes nothing.

    Raises:
        ValueError: `tensorflow` is neither 1 nor 2.
    """
    from tensorflow_ipu.compat import shims
    from tensorflow_ipu.compat.generation import Generation

    if tensorflow not in (1, 2):
        raise ValueError(f"Expected tensorflow to be 1 or 2. Received: {tensorflow!r}.")
    return shims.install(Generation(tensorflow, old_optimizers and tensorflow == 2))
