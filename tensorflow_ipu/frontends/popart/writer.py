"""`NetWriter`: the base of writers of networks; the module `popart.writer`."""

from __future__ import annotations

from typing import Any

__all__ = ["NetWriter"]


class NetWriter:
    """Writes a network of another framework as a model, and trains it there; classes derive it."""

    def __init__(
        self, inNames: Any, outNames: Any, optimizer: Any, dataFlow: Any, inputShapeInfo: Any
    ) -> None:
        """Takes the arguments of the network's run.

        Args:
            inNames: its inputs.
            outNames: its outputs.
            optimizer: the optimizer; None for inference.
            dataFlow: batches and anchors.
            inputShapeInfo: shapes of its inputs.
        """
        self.inNames = inNames
        self.outNames = outNames
        self.optimizer = optimizer
        self.dataFlow = dataFlow
        self.inputShapeInfo = inputShapeInfo
        self.trainMode = optimizer is not None
        print(dataFlow.nAnchors())

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.inNames} -> {self.outNames}]"

    def saveModel(self, filename: str) -> None:
        """Writes the model.

        Args:
            filename: the file.

        Raises:
            NotImplementedError: If a class does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} must override saveModel.")

    def train(self, inputsMap: Any) -> Any:
        """Trains one step.

        Args:
            inputsMap: data of the inputs.

        Raises:
            NotImplementedError: If a class does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} must override train.")

    def infer(self, inputsMap: Any) -> Any:
        """Runs one step.

        Args:
            inputsMap: data of the inputs.

        Raises:
            NotImplementedError: If a class does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} must override infer.")
