"""Elementwise expressions that functions for `codelet_expression_op` build."""

from __future__ import annotations

import abc
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tensorflow as tf
from tensorflow.python.util import dispatch, tf_export

# Values of expressions by identity: a part that is used twice is computed once.
_Values = dict[int, tf.Tensor]

_SUPPORTED = "+, -, *, abs() and ~, and vertex_edsl.constant(number) for numbers"


def _unsupported(operation: str) -> Callable[..., NoReturn]:
    def refuse(self: Expression, *others: Any) -> NoReturn:
        del self, others
        raise TypeError(
            f"A codelet expression does not support {operation}. It is made of its arguments with "
            f"{_SUPPORTED}."
        )

    return refuse


class Expression(abc.ABC):
    """An elementwise expression over the arguments of a function.

    Its arithmetic is that of C++: operands of different types become the wider one of them, and
    integers narrower than 32 bits become int32.
    """

    # Operators of arrays and tensors leave operations with an expression to the expression.
    __array_priority__ = 1000

    @abc.abstractmethod
    def _compute(self, arguments: Sequence[tf.Tensor], known: _Values) -> tf.Tensor:
        """Computes the expression, not looking it up."""

    def evaluate(self, arguments: Sequence[tf.Tensor], known: _Values | None = None) -> tf.Tensor:
        """Computes the expression with TensorFlow's ops.

        Args:
            arguments: the tensors that its placeholders stand for.
            known: parts that are computed already, extended by this one.

        Returns:
            The value, in the type that the arithmetic gives.
        """
        known = {} if known is None else known
        if id(self) not in known:
            known[id(self)] = self._compute(arguments, known)
        return known[id(self)]

    def __add__(self, other: Expression) -> Expression:
        return _Binary("+", tf.add, self, other)

    def __sub__(self, other: Expression) -> Expression:
        return _Binary("-", tf.subtract, self, other)

    def __mul__(self, other: Expression) -> Expression:
        return _Binary("*", tf.multiply, self, other)

    def __radd__(self, other: Any) -> NoReturn:
        raise _not_an_expression("+", other)

    def __rsub__(self, other: Any) -> NoReturn:
        raise _not_an_expression("-", other)

    def __rmul__(self, other: Any) -> NoReturn:
        raise _not_an_expression("*", other)

    def __neg__(self) -> Expression:
        return _Unary(_negative, self)

    def __invert__(self) -> Expression:
        return _Unary(_negative, self)

    def __abs__(self) -> Expression:
        return _Unary(_absolute, self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> NoReturn:
        del method, inputs, kwargs
        _unsupported(f"numpy.{ufunc.__name__}")(self)

    __truediv__ = __rtruediv__ = _unsupported("division (/)")
    __floordiv__ = __rfloordiv__ = _unsupported("division (//)")
    __mod__ = __rmod__ = _unsupported("the remainder (%)")
    __pow__ = __rpow__ = _unsupported("powers (**)")
    __matmul__ = __rmatmul__ = _unsupported("matrix products (@)")
    __and__ = __rand__ = _unsupported("&")
    __or__ = __ror__ = _unsupported("|")
    __xor__ = __rxor__ = _unsupported("^")
    __lshift__ = __rlshift__ = _unsupported("<<")
    __rshift__ = __rrshift__ = _unsupported(">>")
    __pos__ = _unsupported("unary +")
    __lt__ = _unsupported("the comparison <")
    __le__ = _unsupported("the comparison <=")
    __gt__ = _unsupported("the comparison >")
    __ge__ = _unsupported("the comparison >=")
    __eq__ = _unsupported("the comparison ==")
    __ne__ = _unsupported("the comparison !=")
    __hash__ = None  # type: ignore[assignment]
    __bool__ = _unsupported("conditions (if, and, or, not, while)")
    __iter__ = _unsupported("iteration")
    __getitem__ = _unsupported("indexing ([])")
    __float__ = _unsupported("conversion to float")
    __int__ = _unsupported("conversion to int")
    __round__ = _unsupported("round()")
    __divmod__ = _unsupported("divmod()")
    __array__ = _unsupported("functions of TensorFlow and NumPy, which take its value")


class Placeholder(Expression):
    """One of the arguments.

    Args:
        index: its position.
    """

    def __init__(self, index: int) -> None:
        self._index = index

    def _compute(self, arguments: Sequence[tf.Tensor], known: _Values) -> tf.Tensor:
        return arguments[self._index]


class Constant(Expression):
    """A number.

    Args:
        value: the number.
        dtype: its type.
    """

    def __init__(self, value: Any, dtype: tf.DType) -> None:
        self._value, self._dtype = value, dtype

    def _compute(self, arguments: Sequence[tf.Tensor], known: _Values) -> tf.Tensor:
        return tf.constant(self._value, self._dtype)


class _Unary(Expression):
    def __init__(self, function: Callable[[tf.Tensor], tf.Tensor], operand: Expression) -> None:
        self._function, self._operand = function, operand

    def _compute(self, arguments: Sequence[tf.Tensor], known: _Values) -> tf.Tensor:
        (operand,) = _converted(self._operand.evaluate(arguments, known))
        return self._function(operand)


class _Binary(Expression):
    def __init__(
        self,
        operator: str,
        function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        left: Expression,
        right: Expression,
    ) -> None:
        if not isinstance(right, Expression):
            raise _not_an_expression(operator, right)
        self._function, self._left, self._right = function, left, right

    def _compute(self, arguments: Sequence[tf.Tensor], known: _Values) -> tf.Tensor:
        left = self._left.evaluate(arguments, known)
        right = self._right.evaluate(arguments, known)
        return self._function(*_converted(left, right))


def trace(function: Callable[..., Any], num_arguments: int) -> Expression:
    """Calls a function with placeholders.

    Args:
        function: the function.
        num_arguments: how many arguments it takes.

    Returns:
        The expression that it returns.

    Raises:
        TypeError: It does something that expressions do not support, or returns something else.
    """
    result = function(*(Placeholder(index) for index in range(num_arguments)))
    if not isinstance(result, Expression):
        raise TypeError(
            "A function of a codelet expression must return one expression of its arguments, made "
            f"with {_SUPPORTED}. Received: {result!r}"
        )
    return result


class _Refusal(dispatch.GlobalOpDispatcher):
    """Names the function of TensorFlow that was called with an expression.

    TensorFlow asks dispatchers only after a function has failed for the type of an argument.
    """

    def handle(self, op: Any, args: Any, kwargs: Any) -> Any:
        """Raises at calls with an expression among the arguments; leaves others alone."""
        for value in tf.nest.flatten([args, kwargs]):
            if isinstance(value, Expression):
                name = tf_export.get_canonical_name_for_symbol(op) or op.__name__
                _unsupported(f"tf.{name}")(value)
        return self.NOT_SUPPORTED


_Refusal().register()


def _not_an_expression(operator: str, other: Any) -> TypeError:
    advice = (
        f"Write vertex_edsl.constant({other!r})."
        if isinstance(other, numbers.Number)
        else "Pass it to codelet_expression_op as one more argument."
    )
    return TypeError(
        f"The operator {operator} of a codelet expression takes expressions. Received: {other!r}. "
        f"{advice}"
    )


def _negative(value: tf.Tensor) -> tf.Tensor:
    return tf.zeros_like(value) - value if value.dtype.is_unsigned else tf.negative(value)


def _absolute(value: tf.Tensor) -> tf.Tensor:
    return value if value.dtype.is_unsigned else tf.abs(value)


# From narrow to wide.
_FLOATS = (tf.float16, tf.bfloat16, tf.float32)
_INTEGERS = (tf.int32, tf.uint32, tf.int64)


def _converted(*operands: tf.Tensor) -> list[tf.Tensor]:
    """Returns operands in the type that C++ computes in."""
    dtypes = {operand.dtype for operand in operands}
    floats = dtypes.intersection(_FLOATS)
    if len(floats) > 1:
        dtype = tf.float32
    elif floats:
        (dtype,) = floats
    else:
        dtype = max(dtypes & {*_INTEGERS} or {tf.int32}, key=_INTEGERS.index)
    return [tf.cast(operand, dtype) for operand in operands]
