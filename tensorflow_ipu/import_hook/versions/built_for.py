"""The native library where TensorFlow finds it, and the error where it is for another TensorFlow.

TensorFlow loads all libraries in the folders `tensorflow-plugins`. A library that was built for
another release causes a missing symbol, or a crash. So a file beside the library names its release,
and is read before TensorFlow is loaded.
"""

from __future__ import annotations

import site
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from tensorflow_ipu.import_hook.versions import releases

LIBRARY = "libtensorflow_ipu.so"
#: One line, which native/Makefile writes: the version of TensorFlow.
RECORD = "libtensorflow_ipu.built_for"
#: Ends errors of an installation that does not fit together.
ADVICE = "`tensorflow-ipu doctor` looks at the whole installation."


def plugin_folders() -> list[Path]:
    """Returns the folders of this environment and this user from which TensorFlow loads plugins."""
    places = [sysconfig.get_path("platlib"), sysconfig.get_path("purelib")]
    if site.ENABLE_USER_SITE:
        places.append(site.getusersitepackages())
    return [Path(place) / "tensorflow-plugins" for place in places]


def recorded() -> str:
    """Returns the version of TensorFlow that the native library was built for, or "" if unknown."""
    for folder in plugin_folders():
        if (folder / LIBRARY).exists():
            record = folder / RECORD
            return record.read_text(encoding="utf-8").strip() if record.exists() else ""
    return ""


def check(folder: Path) -> None:
    """Raises if the native library was built for another TensorFlow.

    Args:
        folder: the folder of the package `tensorflow`, which need not be loaded.

    Raises:
        ImportError: it is another release.
    """
    compare(recorded(), releases.installed_version(folder))


def compare(built_for: str, running: str) -> None:
    """Raises if two versions of TensorFlow are not of one release.

    Args:
        built_for: the version that it was built for, or "" if that is not known.
        running: the version that is here, or "" if that is not known.

    Raises:
        ImportError: they are of two releases.
    """
    if built_for and running and _minor(built_for) != _minor(running):
        raise ImportError(mismatch(built_for, running))


def mismatch(built_for: str, running: str) -> str:
    """Returns the text of the error: both versions, and the commands of pip that correct it.

    Args:
        built_for: the version of TensorFlow that the native library was built for.
        running: the version that is here.
    """
    python = ".".join(str(part) for part in sys.version_info[:3])
    return (
        f"The native library of tensorflow_ipu {_version()} here was built for "
        f"TensorFlow {built_for}, and this is TensorFlow {running} (Python {python}). "
        f"{' Or '.join(_mends(built_for, running))} Programs without IPUs need neither: "
        f"pip uninstall tensorflow_ipu. {ADVICE}"
    )


def installation(tensorflow: str) -> str:
    """Returns the command of pip that installs the native library for a given TensorFlow.

    Args:
        tensorflow: the version, such as "2.18.1".

    Returns:
        The line; "" if there is no library for this release.
    """
    checkout = Path(__file__).resolve().parents[3]
    if releases.of_version(tensorflow) is None:
        return ""
    if (checkout / "setup.py").exists():
        return f"pip install --no-deps -e {checkout}"
    wanted = f"tensorflow_ipu=={_version()}+tf{_minor(tensorflow)}"
    return f"pip install --no-deps {wanted!r}"


def _mends(built_for: str, running: str) -> list[str]:
    """Returns advice in sentences: install the library of this TensorFlow, or the other release."""
    mends = []
    line = installation(running)
    if not line:
        supported = ", ".join(release.tensorflow for release in releases.RELEASES)
        mends.append(f"There is none for this one, only for {supported}.")
    else:
        mends.append(f"{'Build' if ' -e ' in line else 'Install'} the one for this: {line}.")
    release = releases.of_version(built_for)
    if release is not None and release.has_python(tuple(sys.version_info[:2])):
        packages = [
            text for text in release.requirements() if text.startswith(("tensorflow", "tf_keras"))
        ]
        needed = " ".join(map(repr, packages))
        mends.append(f"install the TensorFlow that it is for: pip install {needed}.")
    return mends


def _version() -> str:
    """Returns the installed version of tensorflow_ipu, for any TensorFlow."""
    try:
        return metadata.version("tensorflow_ipu").partition("+")[0]
    except metadata.PackageNotFoundError:  # a folder of sources on the path
        return str(vars(sys.modules["tensorflow_ipu"])["__version__"])


def _minor(version: str) -> str:
    """Returns the release of a version, such as "2.18" of "2.18.1"."""
    return ".".join(version.split(".")[:2])
