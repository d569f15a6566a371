"""TensorFlow's error classes, imported only when raised, so that configs stays light."""

from __future__ import annotations


def failed_precondition(message: str) -> Exception:
    """Returns a `tf.errors.FailedPreconditionError`."""
    from tensorflow.python.framework import errors

    error: Exception = errors.FailedPreconditionError(None, None, message)
    return error


def internal(message: str) -> Exception:
    """Returns a `tf.errors.InternalError`."""
    from tensorflow.python.framework import errors

    error: Exception = errors.InternalError(None, None, message)
    return error


def invalid_argument(message: str) -> Exception:
    """Returns a `tf.errors.InvalidArgumentError`."""
    from tensorflow.python.framework import errors

    error: Exception = errors.InvalidArgumentError(None, None, message)
    return error


def unimplemented(message: str) -> Exception:
    """Returns a `tf.errors.UnimplementedError`."""
    from tensorflow.python.framework import errors

    error: Exception = errors.UnimplementedError(None, None, message)
    return error
