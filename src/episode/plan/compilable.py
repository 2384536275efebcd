"""Compiles a scalar's tree to a machine expression, with Spark's types and nulls; the rest is left to Spark.

A subtree that Spark must compute raises `NotCompilable`. If it reads one row, the caller lets Spark compute it as a
column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

from episode.errors import EpisodeUnsupportedError
from episode.lang.trees import exp
from episode.plan.expressions import (
    Apply,
    ArrayExpression,
    Constant,
    Expression,
    LabelAt,
    LambdaVariable,
    Load,
    Running,
)
from episode.plan.parameters import MOMENTS, Arguments, SubqueryRows, constant_of, moment_of
from episode.plan.places import is_placeholder
from episode.plan.types import (
    CHOICES,
    DAY_TIME,
    INTEGERS,
    NARROW_DECIMAL,
    VOID,
    WIDEST_DECIMAL,
    as_decimal,
    decimal_of,
    in_words,
    is_day_time_interval,
    is_float,
    is_integer,
    is_numeric,
    is_ranked,
    is_string,
    is_wide,
    lane_of,
    magnitude,
    order_of,
    wider_integer,
    with_scale,
)
from episode.words import DAY

if TYPE_CHECKING:
    from episode.plan.array_functions import ArrayFunctions


class NotCompilable(Exception):
    """The machine does not evaluate this node. `hint`: what would be evaluated."""

    def __init__(self, node: exp.Expression, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason
        self.hint = hint


class Mistake(Exception):
    """Neither the machine nor Spark would evaluate this node."""

    def __init__(self, node: exp.Expression, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.node = node
        self.message = message
        self.hint = hint


class NeedsSpark(EpisodeUnsupportedError):
    """Only Spark evaluates this.

    what: the expression as written. why: EXPRESSION, or ZONE if it could be evaluated in UTC. Where the query would run
    decides what is advised; the hint is that for runs in process.
    """

    EXPRESSION, ZONE = "expression", "zone"
    HINTS: ClassVar[Mapping[str, str]] = {
        EXPRESSION: "In process, expressions are those of the expression machine. Use episode.sql, where Spark "
        "evaluates all."
    }

    def __init__(self, what: str, why: str = EXPRESSION) -> None:
        super().__init__(f"{what} needs Spark.", hint=self.HINTS.get(why))
        self.what = what
        self.why = why

    def as_error(self, hints: Mapping[str, str] = HINTS) -> EpisodeUnsupportedError:
        """Return the error to show to users. hints: by `why`."""
        return EpisodeUnsupportedError(
            self.message, source=self.source, position=self.position, length=self.length, hint=hints.get(self.why)
        )

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return self.as_error().__reduce__()


ONE_TYPE = "Cast both sides to one type; a CAST of columns of one row may be anything: CAST(A.x AS double)."
IN_A_ZONE = "a difference of computed timestamps in a time zone with daylight saving"
LONGEST_LIST = 100
LEAST_QUOTIENT_SCALE = 6
"""Digits that a quotient of decimals has after the point, whatever the digits before it."""
COMPARISONS = {"eq": "eq", "neq": "ne", "lt": "lt", "lte": "le", "gt": "gt", "gte": "ge", "nullsafeeq": "same"}
ARITHMETIC = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "mod": "modulo",
    "intdiv": "int_divide",
    "safedivide": "divide",
}
UNIT_MICROSECONDS = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000, "DAY": DAY, "WEEK": 7 * DAY,
}  # fmt: skip
UNIX_UNITS = {"unixmillis": 1_000, "unixmicros": 1}
"""Microseconds of the units of functions that give a time as a number; of the others a second."""
SYNONYMS = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float"}


NO_ARGUMENTS: Arguments = {}
Resolver = Callable[[str], Expression]
Fallback = Callable[["exp.Expression"], "Expression | None"]


@dataclass
class NativeCompiler:
    """Compiles one scalar.

    resolve: the meaning of a placeholder.
    fallback: a column that Spark computes for a subtree of one row; None where the subtree relates several rows.
    utc: does the session's calendar have no daylight saving?
    arrays: functions over arrays of values of several rows, where there may be such arrays.
    arguments: the values of parameters.
    """

    resolve: Resolver
    fallback: Fallback
    utc: bool
    arrays: ArrayFunctions | None = None
    arguments: Arguments = field(default_factory=dict)
    _purely: bool = False

    def compile(self, node: exp.Expression) -> Expression:
        """The node by the machine alone, else the largest possible subtrees by Spark and the rest by the machine."""
        if self._purely:
            return self._native(node)
        self._purely = True
        try:
            return self._native(node)
        except NotCompilable:
            self._purely = False
            return self.fallback(node) or self._native(node)
        finally:
            self._purely = False

    # ---- dispatch ------------------------------------------------------------------------------------

    def _native(self, node: exp.Expression) -> Expression:
        if isinstance(node, exp.Paren):
            return self.compile(node.this)
        if isinstance(node, exp.Column):
            if not is_placeholder(node):
                raise NotCompilable(node, "this is a field of something that is not the column of one row")
            return self.resolve(node.name)
        if isinstance(node, exp.Literal):
            return self._literal(node)
        if isinstance(node, exp.Placeholder):
            return self._parameter(node)
        if isinstance(node, exp.Boolean):
            return Constant(int(bool(node.this)), "boolean")
        if isinstance(node, exp.Null):
            return Constant(None, VOID)
        if isinstance(node, (exp.And, exp.Or)):
            operation = "and" if isinstance(node, exp.And) else "or"
            return Apply(operation, tuple(self.boolean(part) for part in chain(node)), "boolean")
        if isinstance(node, exp.Not):
            return Apply("not", (self.boolean(node.this),), "boolean")
        if node.key in COMPARISONS:
            return self.comparison(node, COMPARISONS[node.key], self.compile(node.this), self.compile(node.expression))
        if node.key in ARITHMETIC:
            return self._arithmetic(node, ARITHMETIC[node.key], self.compile(node.this), self.compile(node.expression))
        if isinstance(node, exp.Anonymous) and node.name.lower() == "try_mod" and len(node.expressions) == 2:
            return self._arithmetic(node, "modulo", *map(self.compile, node.expressions))
        handler = HANDLERS.get(node.key)
        if handler is None and self.arrays is not None:
            return self.arrays.compile(self, node)
        if handler is None:
            raise NotCompilable(node, "this is Spark's to evaluate, and Spark sees one row at a time")
        return handler(self, node)

    def boolean(self, node: exp.Expression) -> Expression:
        value = self.compile(node)
        if value.type == VOID:
            return Constant(None, "boolean")
        if is_string(value.type):
            raise NotCompilable(node, f"a condition is needed here, not {value.type}", "Cast it to boolean.")
        if value.type != "boolean":
            raise Mistake(node, f"A condition is needed here, but this is of type {value.type}.", "Compare it: x > 0.")
        return value

    def _parameter(self, node: exp.Placeholder) -> Constant:
        if node.name not in self.arguments:
            raise Mistake(node, f"There is no value for the parameter :{node.name}.", "Give it by its name in args.")
        constant = constant_of(self.arguments[node.name])
        if constant is None:
            raise NotCompilable(node, "this value is Spark's to evaluate")
        return constant

    def _literal(self, node: exp.Literal) -> Constant:
        text = node.this
        if node.is_string:
            return Constant(text, "string")
        if text.isdigit():
            value = int(text)
            if value < 2**31:
                return Constant(value, "int")
            if value < 2**63:
                return Constant(value, "bigint")
            if len(text.lstrip("0")) > WIDEST_DECIMAL:
                raise NotCompilable(node, "a number of more than 38 digits")
            return Constant(value, f"decimal({len(text.lstrip('0'))},0)")
        if "e" in text.lower():
            return Constant(float(text), "double")
        number = Decimal(text)
        _, digits, exponent = number.as_tuple()
        scale = -int(exponent)
        precision = max(len(digits), scale)
        if precision > WIDEST_DECIMAL:
            raise NotCompilable(node, "a decimal of more than 38 digits")
        return Constant(int("".join(map(str, digits))), f"decimal({precision},{scale})")

    # ---- numbers -------------------------------------------------------------------------------------

    def _arithmetic(self, node: exp.Expression, operation: str, left: Expression, right: Expression) -> Expression:
        if VOID in (left.type, right.type):
            raise NotCompilable(node, "arithmetic with a bare NULL")
        temporal = self._temporal_arithmetic(node, operation, left, right)
        if temporal is not None:
            return temporal
        if not (is_numeric(left.type) and is_numeric(right.type)):
            raise NotCompilable(node, f"{operation} of {left.type} and {right.type}", ONE_TYPE)
        if is_float(left.type) or is_float(right.type):
            if operation == "int_divide":
                raise NotCompilable(node, "div of floating point numbers")
            single = left.type == "float" and right.type == "float" and operation != "divide"
            result = Apply(operation, (self._double(node, left), self._double(node, right)), "double")
            return Apply("round_single", (result,), "float") if single else result
        if decimal_of(left.type) or decimal_of(right.type):
            return self._decimal_arithmetic(node, operation, left, right)
        if operation == "divide":
            return Apply("divide", (to_float(left), to_float(right)), "double")
        type_ = "bigint" if operation == "int_divide" else wider_integer(left.type, right.type)
        return Apply(operation, (left, right), type_)

    def _decimal_arithmetic(
        self, node: exp.Expression, operation: str, left: Expression, right: Expression
    ) -> Expression:
        first, second = _decimal_type(left), _decimal_type(right)
        (p1, s1), (p2, s2) = first, second
        if operation in ("add", "subtract"):
            scale = max(s1, s2)
            precision = max(p1 - s1, p2 - s2) + scale + 1
            scales = (scale, scale)
        elif operation == "multiply":
            scale, precision = s1 + s2, p1 + p2 + 1
            scales = (s1, s2)
        elif operation == "divide":
            return self._quotient(node, (left, first), (right, second))
        else:
            raise NotCompilable(node, f"{operation} of decimals")
        if precision > WIDEST_DECIMAL:
            raise NotCompilable(node, f"a decimal of {precision} digits", "Cast an operand to double.")
        type_ = f"decimal({precision},{scale})"
        if precision <= NARROW_DECIMAL:
            return Apply(operation, (rescale(left, s1, scales[0]), rescale(right, s2, scales[1])), type_)
        one = with_scale(self._number(node, left), s1, scales[0])
        other = with_scale(self._number(node, right), s2, scales[1])
        if operation == "subtract":
            return Apply("add", (one, Apply("negate", (other,), type_)), type_)
        return Apply(operation, (one, other), type_)

    def _quotient(
        self, node: exp.Expression, left: tuple[Expression, tuple[int, int]], right: tuple[Expression, tuple[int, int]]
    ) -> Expression:
        """The quotient of two numbers with their decimal types, in two words. Null for a divisor of 0."""
        (one, (p1, s1)), (other, (p2, s2)) = left, right
        scale = max(LEAST_QUOTIENT_SCALE, s1 + p2 + 1)
        whole = p1 - s1 + s2
        if whole + scale > WIDEST_DECIMAL:  # digits after the point make way for those before it
            scale = max(WIDEST_DECIMAL - whole, LEAST_QUOTIENT_SCALE)
        precision, digits = min(whole + scale, WIDEST_DECIMAL), scale - s1 + s2
        if digits < 0:
            raise NotCompilable(node, f"a quotient of {one.type} and {other.type}", "Cast an operand to double.")
        operands = (with_scale(self._number(node, one), s1, s1), with_scale(self._number(node, other), s2, s2))
        numbers = (Constant(digits, "int"), Constant(WIDEST_DECIMAL - scale, "int"))
        wide = Apply("divide", (*operands, *numbers), f"decimal({max(precision, NARROW_DECIMAL + 1)},{scale})")
        return wide if precision > NARROW_DECIMAL else Apply("narrow", (wide,), f"decimal({precision},{scale})")

    def _number(self, node: exp.Expression, value: Expression) -> Expression:
        """A number that can be computed with: a wide decimal in words."""
        words = in_words(value) if is_ranked(value) else value
        if words is None:
            raise NotCompilable(node, f"computing with {value.type} here", ONE_TYPE)
        return words

    def _double(self, node: exp.Expression, value: Expression) -> Expression:
        """A number as a double. Of wide decimals Spark's may be one nearer, so that those of one row are Spark's."""
        if self._purely and lane_of(value.type) == "code":
            raise NotCompilable(node, f"{value.type} as a double")
        return to_float(self._number(node, value))

    # ---- time ----------------------------------------------------------------------------------------

    def _temporal_arithmetic(
        self, node: exp.Expression, operation: str, left: Expression, right: Expression
    ) -> Expression | None:
        stamps = ("timestamp", "timestamp_ntz")
        moments = (*stamps, "date")
        dates = left.type == right.type == "date"
        if operation == "subtract" and left.type in moments and right.type in moments and not dates:
            return Apply("subtract", (self._local(node.this, left), self._local(node.expression, right)), DAY_TIME)
        if operation == "subtract" and dates:
            days = Apply("subtract", (left, right), "bigint")
            return Apply("multiply", (days, Constant(DAY, "bigint")), "interval day")
        if operation in ("add", "subtract") and left.type in stamps and is_day_time_interval(right.type):
            return self._shift_timestamp(node, operation, left, right)
        if operation == "add" and right.type in stamps and is_day_time_interval(left.type):
            return self._shift_timestamp(node, operation, right, left)
        if operation in ("add", "subtract") and is_day_time_interval(left.type) and is_day_time_interval(right.type):
            return Apply(operation, (left, right), DAY_TIME)
        if operation in ("add", "subtract") and left.type == "date" and right.type in INTEGERS[:3]:
            return Apply(operation, (left, right), "date")
        return None

    def _shift_timestamp(
        self, node: exp.Expression, operation: str, stamp: Expression, interval: Expression
    ) -> Expression:
        """Whole days follow the session's calendar unless time has no zone; shorter intervals are exact."""
        amount = interval.value if isinstance(interval, Constant) else None
        short = isinstance(amount, int) and abs(amount) < DAY
        if not (short or self.utc or stamp.type == "timestamp_ntz"):
            raise NotCompilable(node, "adding days in a time zone with daylight saving")
        return Apply(operation, (stamp, interval), stamp.type)

    def _local(self, node: exp.Expression, value: Expression) -> Expression:
        """Return the local date-time of a moment: Spark takes differences of these, not of physical time.

        If the zone has daylight saving, Spark computes the local date-time as a column next to the moment.
        """
        if value.type == "date":
            return Apply("multiply", (value, Constant(DAY, "bigint")), "timestamp_ntz")
        if value.type == "timestamp_ntz" or self.utc:
            return value
        if self._purely:
            raise NotCompilable(node, IN_A_ZONE)
        while isinstance(node, exp.Paren):
            node = node.this
        local = self.fallback(_as_local(node))
        if local is not None:
            return local
        if isinstance(node, exp.Coalesce):
            locals_ = [_as_local(part) for part in (node.this, *node.expressions)]
            return self.compile(exp.Coalesce(this=locals_[0], expressions=locals_[1:]))
        raise NotCompilable(node, IN_A_ZONE, "Compute the local times in a subquery: CAST(ts AS TIMESTAMP_NTZ).")

    def _interval(self, node: exp.Interval) -> Expression:
        amount, unit = node.this, node.args.get("unit")
        if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var):
            raise NotCompilable(node, "this form of interval")
        name = unit.name.upper().rstrip("S")
        try:
            value = Decimal(amount.this.strip())
        except ArithmeticError:
            raise NotCompilable(node, "this form of interval") from None
        if name not in UNIT_MICROSECONDS:
            raise NotCompilable(node, f"an interval in {name.lower()}s")
        exact = value * UNIT_MICROSECONDS[name]
        if exact != int(exact) or abs(exact) >= 2**63:
            raise NotCompilable(node, "an interval finer than a microsecond")
        return Constant(int(exact), DAY_TIME)

    def _timestamp_difference(self, node: exp.Expression) -> Expression:
        unit = node.args.get("unit")
        name = unit.name.upper() if unit is not None else ""
        operands = _without_date_conversion(node.this), _without_date_conversion(node.expression)
        end, start = map(self.compile, operands)
        if name not in UNIT_MICROSECONDS:
            raise NotCompilable(node, f"a difference in {name.lower() or 'this unit'}")
        if end.type != start.type or end.type not in ("timestamp", "timestamp_ntz"):
            raise NotCompilable(node, f"a difference of {end.type} and {start.type}")
        difference = Apply("subtract", tuple(map(self._local, operands, (end, start))), "bigint")
        return Apply("int_divide", (difference, Constant(UNIT_MICROSECONDS[name], "bigint")), "bigint")

    def _date_difference(self, node: exp.Expression) -> Expression:
        operands = _without_date_conversion(node.this), _without_date_conversion(node.expression)
        if None in operands:
            raise NotCompilable(node, "a difference of one date")
        if node.args.get("unit") is not None and node.args["unit"].name.upper() != "DAY":
            return self._timestamp_difference(node)
        end, start = map(self.compile, operands)
        if not end.type == start.type == "date":
            raise NotCompilable(node, f"datediff of {end.type} and {start.type}")
        return Apply("subtract", (end, start), "int")

    # ---- comparison ----------------------------------------------------------------------------------

    def comparison(self, node: exp.Expression, operation: str, left: Expression, right: Expression) -> Expression:
        if self.arrays is not None and isinstance(left, ArrayExpression) and left.type.startswith("array<"):
            return self.arrays.compare(self, node, operation, left, right)
        nulls = (Apply("is_null", (left,), "boolean"), Apply("is_null", (right,), "boolean"))
        left, right = self._comparable(node, left, right)
        if operation == "same" and isinstance(left, Apply) and left.operation == "order":
            equal = Apply("coalesce", (Apply("eq", (left, right), "boolean"), Constant(0, "boolean")), "boolean")
            return Apply("or", (Apply("and", nulls, "boolean"), equal), "boolean")
        return Apply(operation, (left, right), "boolean")

    def _comparable(self, node: exp.Expression, left: Expression, right: Expression) -> tuple[Expression, Expression]:
        """Both operands in one lane and unit, as Spark would widen them."""
        if left.type == VOID or right.type == VOID:
            type_ = right.type if left.type == VOID else left.type
            return retype_null(left, type_), retype_null(right, type_)
        if is_numeric(left.type) and is_numeric(right.type):
            return self._comparable_numbers(node, left, right)
        if is_day_time_interval(left.type) and is_day_time_interval(right.type):
            return left, right
        if is_string(left.type) and is_string(right.type) and lane_of(left.type) == lane_of(right.type) == "code":
            return self._codes(node, left, right)
        if isinstance(left, Constant) and is_string(left.type) and right.type in MOMENTS:
            return self._moment(node, left, right.type), right
        if isinstance(right, Constant) and is_string(right.type) and left.type in MOMENTS:
            return left, self._moment(node, right, left.type)
        if left.type != right.type:
            raise NotCompilable(node, f"comparing {left.type} with {right.type}", ONE_TYPE)
        if lane_of(left.type) is None:
            raise NotCompilable(node, f"values of type {left.type} are compared within one row only")
        if lane_of(left.type) == "code":
            return self._codes(node, left, right)
        return left, right

    def _codes(self, node: exp.Expression, left: Expression, right: Expression) -> tuple[Expression, Expression]:
        for side in (left, right):
            chosen = isinstance(side, Apply) and side.operation in CHOICES
            if not chosen and not isinstance(side, (Load, Constant, LabelAt, Running, LambdaVariable, ArrayExpression)):
                raise NotCompilable(node, f"comparing computed values of type {side.type}")
        return left, right

    def _comparable_numbers(
        self, node: exp.Expression, left: Expression, right: Expression
    ) -> tuple[Expression, Expression]:
        if is_float(left.type) or is_float(right.type):
            return self._double(node, left), self._double(node, right)
        if is_integer(left.type) and is_integer(right.type):
            return left, right
        first, second = _decimal_type(left), _decimal_type(right)
        if left.type == right.type and is_ranked(left) and is_ranked(right):
            return self._codes(node, left, right)
        scale = max(first[1], second[1])
        if max(first[0] - first[1], second[0] - second[1]) + scale <= NARROW_DECIMAL:
            return rescale(left, first[1], scale), rescale(right, second[1], scale)
        compared = order_of(self._number(node, left), first, self._number(node, right), second)
        if compared is None:
            raise NotCompilable(node, f"comparing {left.type} with {right.type}", ONE_TYPE)
        return compared

    # ---- functions -----------------------------------------------------------------------------------

    def _is(self, node: exp.Is) -> Expression:
        value = self.compile(node.this)
        made = isinstance(value, ArrayExpression) and value.type.startswith("array<")
        if lane_of(value.type) is None and not made:
            raise NotCompilable(node, f"a test of {value.type}")
        negated = isinstance(node.expression, exp.Not)
        target = node.expression.this if negated else node.expression
        if isinstance(target, exp.Null):  # an array that a condition makes is never null
            result: Expression = Constant(0, "boolean") if made else Apply("is_null", (value,), "boolean")
        elif isinstance(target, exp.Boolean) and value.type == "boolean":
            result = Apply("same", (value, Constant(int(bool(target.this)), "boolean")), "boolean")
        else:
            raise NotCompilable(node, "this form of IS")
        return Apply("not", (result,), "boolean") if negated else result

    def _between(self, node: exp.Between) -> Expression:
        if node.args.get("symmetric"):
            raise NotCompilable(node, "BETWEEN SYMMETRIC")
        low = self.comparison(node, "ge", self.compile(node.this), self.compile(node.args["low"]))
        high = self.comparison(node, "le", self.compile(node.this), self.compile(node.args["high"]))
        return Apply("and", (low, high), "boolean")

    def _in(self, node: exp.In) -> Expression:
        options = node.expressions
        if not options or node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise NotCompilable(node, "this form of IN")
        given = [self.arguments.get(option.name) for option in options if isinstance(option, exp.Placeholder)]
        if any(isinstance(value, SubqueryRows) and value.is_list for value in given):
            hint = "Write values of one row: A.x IN (SELECT …)."
            raise NotCompilable(node, "IN (SELECT …) of values of several rows", hint)
        _check_length(node, len(options))
        value = self.compile(node.this)
        tests = [self.comparison(node, "eq", value, self.compile(option)) for option in options]
        return tests[0] if len(tests) == 1 else Apply("or", tuple(tests), "boolean")

    def _case(self, node: exp.Case) -> Expression:
        subject = node.this
        default = node.args.get("default")
        branches = []
        for branch in node.args["ifs"]:
            if subject is None:
                condition = self.boolean(branch.this)
            else:
                condition = self.comparison(node, "eq", self.compile(subject), self.compile(branch.this))
            branches.append((condition, self.compile(branch.args["true"])))
        otherwise = self.compile(default) if default is not None else Constant(None, VOID)
        values = self.unify(node, [value for _, value in branches] + [otherwise])
        result = values[-1]
        for (condition, _), value in zip(reversed(branches), reversed(values[:-1]), strict=True):
            result = Apply("if", (condition, value, result), value.type)
        return result

    def _if(self, node: exp.If) -> Expression:
        condition = self.boolean(node.this)
        otherwise = node.args.get("false")
        values = self.unify(
            node, [self.compile(node.args["true"]), self.compile(otherwise) if otherwise else Constant(None, VOID)]
        )
        return Apply("if", (condition, *values), values[0].type)

    def _coalesce(self, node: exp.Coalesce) -> Expression:
        values = self.unify(node, [self.compile(part) for part in [node.this, *node.expressions]])
        return reduce(lambda result, value: Apply("coalesce", (value, result), value.type), reversed(values))

    def _differs(self, node: exp.Expression) -> Expression:
        """IS DISTINCT FROM."""
        same = self.comparison(node, "same", self.compile(node.this), self.compile(node.expression))
        return Apply("not", (same,), "boolean")

    def _nullif(self, node: exp.Nullif) -> Expression:
        value, other = self.compile(node.this), self.compile(node.expression)
        equal = self.comparison(node, "eq", value, other)
        return Apply("if", (equal, Constant(None, value.type), value), value.type)

    def _extreme(self, node: exp.Expression) -> Expression:
        operation = "greatest" if isinstance(node, exp.Greatest) else "least"
        if node.args.get("ignore_nulls") is False:
            raise NotCompilable(node, operation)
        values = self.unify(node, [self.compile(part) for part in [node.this, *node.expressions]])
        if any(is_wide(value) for value in values):
            raise NotCompilable(node, f"{operation} of {values[0].type}")
        return reduce(lambda result, value: Apply(operation, (result, value), value.type), values)

    def unify(self, node: exp.Expression, values: list[Expression]) -> list[Expression]:
        """The branches of a conditional in one type."""
        _check_length(node, len(values))
        types = {value.type for value in values if value.type != VOID}
        if not types:
            return [retype_null(value, "boolean") for value in values]
        if len(types) == 1:
            type_ = types.pop()
        elif all(is_integer(type_) for type_ in types):
            type_ = max(types, key=INTEGERS.index)
            return [widen_integer(retype_null(value, type_), type_) for value in values]
        elif all(is_numeric(type_) and lane_of(type_) != "code" for type_ in types) and "double" in types:
            return [to_float(retype_null(value, "double")) for value in values]
        else:
            raise NotCompilable(node, f"values of types {', '.join(sorted(types))}")
        if lane_of(type_) is None:
            raise NotCompilable(node, f"a choice between values of type {type_}")
        values = [retype_null(value, type_) for value in values]
        return [self._number(node, value) for value in values] if any(map(is_wide, values)) else values

    def _negate(self, node: exp.Neg) -> Expression:
        value = self.compile(node.this)
        if isinstance(value, Constant) and isinstance(value.value, (int, float)) and is_numeric(value.type):
            return Constant(-value.value, value.type)
        if not is_numeric(value.type) and not is_day_time_interval(value.type):
            raise NotCompilable(node, f"minus of {value.type}")
        return Apply("negate", (self._number(node, value),), value.type)

    def _absolute(self, node: exp.Abs) -> Expression:
        value = self.compile(node.this)
        if not is_numeric(value.type):
            raise NotCompilable(node, f"abs of {value.type}")
        value = self._number(node, value)
        if is_wide(value):
            return magnitude(value)
        return Apply("abs", (value,), value.type)

    def _double_function(self, node: exp.Expression) -> Expression:
        value = self.compile(node.this)
        if not is_numeric(value.type):
            raise NotCompilable(node, f"{node.key} of {value.type}")
        return Apply(node.key, (self._double(node, value),), "double")

    def _power(self, node: exp.Pow) -> Expression:
        base, exponent = self.compile(node.this), self.compile(node.expression)
        if not (is_numeric(base.type) and is_numeric(exponent.type)):
            raise NotCompilable(node, "power")
        return Apply("power", (self._double(node, base), self._double(node, exponent)), "double")

    def _is_nan(self, node: exp.IsNan) -> Expression:
        value = self.compile(node.this)
        if not is_float(value.type):
            raise NotCompilable(node, f"isnan of {value.type}")
        return Apply("is_nan", (value,), "boolean")

    def _cast(self, node: exp.Cast) -> Expression:
        value = self.compile(node.this)
        target = node.to.sql("spark").lower()
        target = "timestamp" if target == "timestamp_ltz" else SYNONYMS.get(target, target)
        if target == value.type:
            return value
        if isinstance(value, Constant) and is_string(value.type) and target in MOMENTS:
            return self._moment(node, value, target)
        if value.type == VOID and lane_of(target) is not None:
            return Constant(None, target)
        if is_integer(value.type) and is_integer(target) and INTEGERS.index(target) > INTEGERS.index(value.type):
            return Apply("copy", (value,), target)
        if target == "double" and is_numeric(value.type):
            return Apply("copy", (self._double(node, value),), "double")
        if target == "timestamp_ntz" and value.type == "timestamp":
            return Apply("copy", (self._local(node.this, value),), "timestamp_ntz")
        if target == "bigint" and value.type == "timestamp":
            return Apply("floor_divide", (value, Constant(1_000_000, "bigint")), "bigint")
        raise NotCompilable(node, f"cast of {value.type} to {target}")

    def _moment(self, node: exp.Expression, text: Constant, type_: str) -> Constant:
        """A date or timestamp that is written out. Timestamps are of the session's zone."""
        value = moment_of(str(text.value), type_) if self.utc or type_ != "timestamp" else None
        if value is None:
            raise NotCompilable(node, f"the text {text.value!r} as {type_}")
        return Constant(value, type_)

    def _unix_time(self, node: exp.Expression) -> Expression:
        if node.args.get("format") is not None:
            raise NotCompilable(node, "unix_timestamp with a format")
        value = self.compile(node.this)
        if value.type != "timestamp":
            raise NotCompilable(node, f"unix time of {value.type}")
        return Apply("floor_divide", (value, Constant(UNIX_UNITS.get(node.key, 1_000_000), "bigint")), "bigint")


def _check_length(node: exp.Expression, length: int) -> None:
    """Long lists are Spark's: they would take many registers, and a choice among n values is n levels deep."""
    if length > LONGEST_LIST:
        hint = "Such lists are only possible over the columns of one row."
        raise NotCompilable(node, f"a list of more than {LONGEST_LIST} values", hint)


def chain(node: exp.Expression) -> list[exp.Expression]:
    """The parts of `a AND b AND c …` (or OR), which may be many, in order."""
    parts: list[exp.Expression] = []
    pending = [node]
    while pending:
        part = pending.pop()
        if type(part) is type(node):
            pending += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


def _decimal_type(value: Expression) -> tuple[int, int]:
    """The decimal type to which Spark widens an exact number; an integer literal is as wide as it is long."""
    if isinstance(value, Constant) and is_integer(value.type) and isinstance(value.value, int):
        return len(str(abs(value.value))), 0
    found = as_decimal(value.type)
    assert found is not None
    return found


def to_float(value: Expression) -> Expression:
    """The value in the float lane."""
    if is_float(value.type):
        return value
    decimal = decimal_of(value.type)
    scale = decimal[1] if decimal else 0
    if isinstance(value, Constant):
        if value.value is None:
            return Constant(None, "double")
        assert isinstance(value.value, int)
        return Constant(value.value / 10**scale, "double")
    converted = Apply("wide_to_float" if is_wide(value) else "to_float", (value,), "double")
    return Apply("divide", (converted, Constant(float(10**scale), "double")), "double") if scale else converted


def widen_integer(value: Expression, type_: str) -> Expression:
    if value.type == type_:
        return value
    return Constant(value.value, type_) if isinstance(value, Constant) else Apply("copy", (value,), type_)


def _as_local(node: exp.Expression) -> exp.Expression:
    return exp.cast(node.copy(), exp.DataType.Type.TIMESTAMPNTZ)


def _without_date_conversion(node: exp.Expression) -> exp.Expression:
    """Remove the conversion to date that sqlglot puts around the arguments of datediff."""
    return node.this if isinstance(node, exp.TsOrDsToDate) else node


def rescale(value: Expression, scale: int, target: int) -> Expression:
    """An exact number with `target` digits after the point instead of `scale`."""
    if scale == target:
        return value
    factor = 10 ** (target - scale)
    if isinstance(value, Constant) and isinstance(value.value, int):
        return Constant(value.value * factor, value.type)
    return Apply("multiply", (value, Constant(factor, "bigint")), "bigint")


def retype_null(value: Expression, type_: str) -> Expression:
    return Constant(None, type_) if value.type == VOID else value


HANDLERS = {
    "is": NativeCompiler._is,
    "between": NativeCompiler._between,
    "in": NativeCompiler._in,
    "case": NativeCompiler._case,
    "if": NativeCompiler._if,
    "coalesce": NativeCompiler._coalesce,
    "nullif": NativeCompiler._nullif,
    "nullsafeneq": NativeCompiler._differs,
    **dict.fromkeys(("greatest", "least"), NativeCompiler._extreme),
    "neg": NativeCompiler._negate,
    "abs": NativeCompiler._absolute,
    **dict.fromkeys(("sqrt", "exp", "ln"), NativeCompiler._double_function),
    "pow": NativeCompiler._power,
    "isnan": NativeCompiler._is_nan,
    **dict.fromkeys(("cast", "trycast"), NativeCompiler._cast),
    "interval": NativeCompiler._interval,
    "timestampdiff": NativeCompiler._timestamp_difference,
    **dict.fromkeys(("datediff", "tsordsdiff"), NativeCompiler._date_difference),
    **dict.fromkeys(("unixseconds", "unixmillis", "unixmicros", "strtounix", "timetounix"), NativeCompiler._unix_time),
}
