"""Sessions of tasks, with streams by name; the modules `task_session` and `streams`."""

from __future__ import annotations

import importlib
import json
import shutil
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensorData, NamedTensors
from tensorflow_ipu.util import private_files

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "InputStreams",
    "OutputStreams",
    "ReportMissingMethods",
    "TaskSession",
    "initialise_memmap_dir_from_checkpoint",
    "write_variables_pb",
]


S = TypeVar("S")


class _Streams(Generic[S]):
    """Streams in order, by name, by number and as attributes."""

    _streams: dict[str, S]

    def __init__(self, **specs: tuple[Iterable[int], popxl.dtype]) -> None:
        """Makes a stream for each name.

        Args:
            **specs: shape and type of each tensor of the stream, by name.
        """
        self._streams = {name: self._make(tuple(s), d, name) for name, (s, d) in specs.items()}

    @staticmethod
    def _make(shape: Any, dtype: popxl.dtype, name: str) -> Any:
        raise NotImplementedError

    @classmethod
    def from_streams(cls, streams: Iterable[S]) -> Self:
        """Makes a collection of streams that there are, with the ids of their tensors as names.

        Args:
            streams: the streams.
        """
        made = cls()
        made._streams = {stream.tensor_id: stream for stream in streams}  # type: ignore[attr-defined]
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{', '.join(self._streams)}]"

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[S]:
        return iter(self._streams.values())

    def __contains__(self, value: object) -> bool:
        return value in self._streams or value in self._streams.values()

    def __getattr__(self, name: str) -> S:
        streams = self.__dict__.get("_streams", {})
        if name not in streams:
            raise AttributeError(f"There is no stream {name!r}. The streams: {list(streams)}")
        return streams[name]

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, (int, slice)):
            return list(self._streams.values())[key]
        if key not in self._streams:
            raise KeyError(f"There is no stream {key!r}. The streams: {list(self._streams)}")
        return self._streams[key]

    def keys(self) -> list[str]:
        """Returns the names."""
        return list(self._streams)

    def values(self) -> list[S]:
        """Returns the streams."""
        return list(self._streams.values())

    def items(self) -> list[tuple[str, S]]:
        """Returns the names with their streams."""
        return list(self._streams.items())


class InputStreams(_Streams[popxl.HostToDeviceStream]):
    """Streams from the host to the device: `InputStreams(images=((8, 28, 28), popxl.float32))`."""

    @staticmethod
    def _make(shape: Any, dtype: popxl.dtype, name: str) -> popxl.HostToDeviceStream:
        return popxl.h2d_stream(shape, dtype, name)


class OutputStreams(_Streams[popxl.DeviceToHostStream]):
    """Streams from the device to the host: `OutputStreams(loss=((), popxl.float32))`."""

    @staticmethod
    def _make(shape: Any, dtype: popxl.dtype, name: str) -> popxl.DeviceToHostStream:
        return popxl.d2h_stream(shape, dtype, name)


ReportMissingMethods = Literal["none", "warn", "error"]


_REPORTS = get_args(ReportMissingMethods)


_WANDB = "wandb://"


_INFO, _MODEL, _LOADER = "session_info.json", "model", "dataloader.bin"


class TaskSession(popxl.Session):
    """A session with its streams and variables by name, whose state can be saved.

    Attributes:
        inputs: The streams that it needs data for.
        outputs: The streams that it returns.
        state: Its variables.
        max_checkpoints: How many checkpoints are kept.
        session_state: What is saved beside the variables; `steps` counts the runs.
    """

    inputs: InputStreams
    outputs: OutputStreams
    state: NamedTensors
    max_checkpoints: int
    session_state: dict[str, Any]

    def __init__(
        self,
        inputs: InputStreams,
        outputs: OutputStreams,
        state: NamedTensors,
        max_checkpoints: int = 1,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Makes a session.

        Args:
            inputs: the streams that it needs data for.
            outputs: the streams that it returns.
            state: its variables.
            max_checkpoints: how many checkpoints are kept; those before are deleted.
            *args: as for `popxl.Session`.
            **kwargs: as for `popxl.Session`.

        Raises:
            ValueError: As `popxl.Session` does.
        """
        super().__init__(*args, **kwargs)
        self.inputs = inputs
        self.outputs = outputs
        self.state = state
        self.max_checkpoints = max_checkpoints
        self.session_state = {"steps": 0}
        self._dataloader: Any = None
        self._checkpoints: list[Path] = []

    @property
    def dataloader(self) -> Any:
        """The data loader. Its position is saved with the state.

        Raises:
            ValueError: If an object without the methods `save` and `resume` is assigned.
        """
        return self._dataloader

    @dataloader.setter
    def dataloader(self, loader: Any) -> None:
        missing = [name for name in ("save", "resume") if not callable(getattr(loader, name, None))]
        if missing:
            raise ValueError(f"A dataloader needs the methods save and resume. Missing: {missing}")
        self._dataloader = loader

    def add_session_state_info(self, info: Mapping[str, Any]) -> None:
        """Adds values to the session state, which is saved beside the variables.

        Args:
            info: values by name, such as JSON has.
        """
        self.session_state.update(info)

    def run(
        self,
        inputs: Mapping[popxl.HostToDeviceStream, Any] | None = None,
        downcast_inputs: bool = True,
    ) -> dict[popxl.DeviceToHostStream, np.ndarray]:
        """Runs the program once, as `popxl.Session.run` does, and counts the step.

        Args:
            inputs: as for `popxl.Session.run`.
            downcast_inputs: as for `popxl.Session.run`.

        Raises:
            ValueError: As `popxl.Session.run` does.
        """
        results = super().run(inputs, downcast_inputs)
        self.session_state["steps"] += 1
        return results

    def wandb_histogram(self, name: str, step: int, data: Any) -> None:
        """Logs a histogram to the current run of Weights & Biases.

        Args:
            name: name of the histogram.
            step: number of the step.
            data: the values.

        Raises:
            ImportError: If the package `wandb` is not installed.
        """
        try:
            wandb = importlib.import_module("wandb")
        except ImportError as error:
            raise ImportError(
                f"The histogram {name!r} is logged with the package wandb, which cannot be "
                "imported. Install it: pip install wandb."
            ) from error
        wandb.log({name: wandb.Histogram(data)}, step=step)

    def wandb_variable_histograms(self, step: int = 0) -> None:
        """Logs a histogram of each variable to the current run of Weights & Biases.

        Args:
            step: number of the step.

        Raises:
            ImportError: If the package `wandb` is not installed.
        """
        for name, data in self.get_named_tensors_data().to_dict().items():
            self.wandb_histogram(name, step, data)

    def get_named_tensors_data(self) -> NamedTensorData:
        """Returns the values of all variables by name."""
        data = self.get_tensors_data(self._variables().values())
        return NamedTensorData.from_dict(
            {name: data[tensor] for name, tensor in self._variables().items()}
        )

    def load_from_session(
        self, src: TaskSession, report_missing: ReportMissingMethods = "none"
    ) -> None:
        """Gives variables the values that another session's have.

        Args:
            src: the other session. Its variables are found by name.
            report_missing: the reaction if names are in one of the two only: "none", "warn" or
                "error".

        Raises:
            ValueError: If names are missing and that is an error, or the last is another value.
        """
        values = {
            name: np.array(value) for name, value in src.get_named_tensors_data().to_dict().items()
        }
        self._load(values, report_missing)

    def save_checkpoint(self, checkpoint_dir: str | Path) -> None:
        """Writes the variables and the state into a folder.

        Args:
            checkpoint_dir: the folder: `model/<name>.npz` are the variables, `session_info.json`
                the state, and `dataloader.bin` the position of the dataloader.

        Raises:
            OSError: If it cannot be written.
            ValueError: If it is an address in Weights & Biases.
        """
        folder = private_files.make_folder(_local(checkpoint_dir))
        private_files.make_folder(folder / _MODEL)
        for name, value in self.get_named_tensors_data().to_dict().items():
            if isinstance(value, np.memmap):
                data = np.ascontiguousarray(value).tobytes()
                private_files.write_bytes(folder / _MODEL / f"{name}.npy", data)
            else:
                _write_npz(folder / _MODEL / f"{name}.npz", value)
        private_files.write_text(folder / _INFO, json.dumps(self.session_state))
        if self._dataloader is not None:
            self._dataloader.save(folder / _LOADER)
        self._checkpoints = [path for path in self._checkpoints if path != folder] + [folder]
        while len(self._checkpoints) > self.max_checkpoints:
            shutil.rmtree(self._checkpoints.pop(0), ignore_errors=True)

    def load_checkpoint(
        self,
        checkpoint_dir: str | Path,
        report_missing: ReportMissingMethods = "warn",
        skip_memmap: bool = False,
    ) -> None:
        """Loads a checkpoint of `save_checkpoint`.

        Args:
            checkpoint_dir: the folder. Without the file `session_info.json` in it, steps are
                counted from 0.
            report_missing: the reaction if variables are in the folder or in the session only:
                "none", "warn" or "error".
            skip_memmap: whether variables that are files keep their values.

        Raises:
            ValueError: If names are missing and that is an error, or it is an address in Weights &
                Biases.
            OSError: If it cannot be read.
        """
        folder = _local(checkpoint_dir)
        info = folder / _INFO
        state = json.loads(info.read_text(encoding="utf-8")) if info.exists() else {"steps": 0}
        self.session_state.update(state)
        values = {}
        for path in sorted((folder / _MODEL).glob("*.npz")):
            with np.load(path, allow_pickle=False) as arrays:
                values[path.stem] = arrays[arrays.files[0]]
        for name, variable in self._variables().items():
            path = folder / _MODEL / f"{name}.npy"
            if path.exists():
                kept = self.get_tensor_data(variable)
                array = np.fromfile(path, kept.dtype).reshape(kept.shape)
                values[name] = kept if skip_memmap else array
        self._load(values, report_missing)
        if self._dataloader is not None:
            self._dataloader.resume(folder / _LOADER)

    def _variables(self) -> dict[str, popxl.Variable]:
        """Returns the variables of the state by name, without its other tensors."""
        return {
            name: tensor
            for name, tensor in self.state.to_dict().items()
            if isinstance(tensor, popxl.Variable)
        }

    def _load(self, values: Mapping[str, np.ndarray], report_missing: str) -> None:
        """Gives variables values by name."""
        if report_missing not in _REPORTS:
            raise ValueError(
                f"report_missing must be one of {_REPORTS}. Received: {report_missing!r}"
            )
        variables = self._variables()
        missing = sorted(set(variables) - set(values))
        unknown = sorted(set(values) - set(variables))
        if (missing or unknown) and report_missing != "none":
            message = f"Variables without a value: {missing}. Values without a variable: {unknown}"
            if report_missing == "error":
                raise ValueError(message)
            warnings.warn(message, stacklevel=3)
        self.get_tensors_data(variables.values())  # what the device has changed stays as it is
        self.write_variables_data(
            {variables[name]: value for name, value in values.items() if name in variables}
        )


def _local(checkpoint_dir: str | Path) -> Path:
    """Returns a folder; addresses in Weights & Biases are refused."""
    if str(checkpoint_dir).startswith(_WANDB):
        raise ValueError(
            f"Checkpoints in Weights & Biases ({_WANDB}) are not supported. Pass a folder. "
            f"Received: {checkpoint_dir!r}"
        )
    return Path(checkpoint_dir)


def _write_npz(path: Path, value: np.ndarray) -> None:
    """Writes a file with one array, as `numpy.savez` does."""
    with private_files.replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("arr_0.npy", "w", force_zip64=True) as stream:
            np.save(stream, value, allow_pickle=False)


def initialise_memmap_dir_from_checkpoint(
    checkpoint_dir: str | Path, memmap_dir: str | Path
) -> None:
    """Copies the variables of a checkpoint that are files into a folder for such variables.

    Args:
        checkpoint_dir: the folder of the checkpoint.
        memmap_dir: the other folder, as for `NamedVariableFactories.init`.

    Raises:
        ValueError: If the first is an address in Weights & Biases.
    """
    private_files.make_folder(memmap_dir)
    for path in sorted((_local(checkpoint_dir) / _MODEL).glob("*.npy")):
        private_files.write_bytes(Path(memmap_dir) / path.name, path.read_bytes())


def write_variables_pb(session: popxl.Session, weights: Mapping[Any, np.ndarray]) -> None:
    """Gives variables values, converted to their types.

    Args:
        session: the session.
        weights: values by variable.

    Raises:
        ValueError: If a shape differs.
    """
    session.write_variables_data(
        {t: np.asarray(value).astype(t.dtype.as_numpy()) for t, value in weights.items()}
    )
