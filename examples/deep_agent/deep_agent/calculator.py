"""Arithmetic on text, by walking its syntax tree: nothing is ever executed."""

import ast
import math
import operator
from collections.abc import Callable

MAX_EXPRESSION_CHARACTERS = 200
MAX_EXPONENT = 1_000
MAX_MAGNITUDE = 1e300

_Number = int | float

_BINARY: dict[type[ast.operator], Callable[[_Number, _Number], _Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[_Number], _Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS: dict[str, Callable[[_Number], _Number]] = {
    "sqrt": math.sqrt,
    "abs": abs,
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
}
_CONSTANTS: dict[str, _Number] = {"pi": math.pi, "e": math.e}
# Signs that people and models write for *, / and -.
_LOOK_ALIKES = str.maketrans(
    {
        "\u00d7": "*",
        "\u22c5": "*",
        "\u00b7": "*",
        "\u00f7": "/",
        "\u2215": "/",
        "\u2212": "-",
        "\u2013": "-",
        "^": "**",
    }
)


class ExpressionError(ValueError):
    """The text is no expression that this calculator knows; the message says why."""


def evaluate(expression: str) -> _Number:
    """The value of `expression`: numbers, + - * / // % **, parentheses, and a few functions and constants.

    Raises:
        ExpressionError: unknown syntax, too long, too large, or mathematically undefined.
    """
    if len(expression) > MAX_EXPRESSION_CHARACTERS:
        raise ExpressionError(f"longer than {MAX_EXPRESSION_CHARACTERS} characters")
    try:
        tree = ast.parse(expression.translate(_LOOK_ALIKES).strip(), mode="eval")
        return _value(tree.body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ExpressionError("not an arithmetic expression") from error
    except (ZeroDivisionError, OverflowError) as error:
        raise ExpressionError(str(error)) from error
    except ValueError as error:
        raise ExpressionError(str(error)) from error


def _value(node: ast.expr) -> _Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_combine(op, _value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](_value(argument)))
        case _:
            raise ExpressionError(f"{type(node).__name__} is not arithmetic")


def _combine(op: ast.operator, left: _Number, right: _Number) -> _Number:
    if isinstance(op, ast.Pow) and (abs(right) > MAX_EXPONENT or abs(left) > MAX_MAGNITUDE):
        raise ExpressionError(f"exponent beyond {MAX_EXPONENT}")
    return _BINARY[type(op)](left, right)


def _bounded(value: _Number) -> _Number:
    if isinstance(value, complex):
        raise ExpressionError("the result is not a real number")
    if value and abs(value) > MAX_MAGNITUDE:
        raise ExpressionError("the result is too large")
    return value
