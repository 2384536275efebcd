"""Untrusted queries: everything that Spark parses for them is checked first, and they read the given tables only.

See decision 156.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeUnsupportedError
from episode.spark.classic import class_of, items

# A parsed plan of Spark as JSON, in one call into the JVM: all its parts, also those that are nobody's children.
#
# Asked part by part from Python, a plan of a hundred parts takes a hundred milliseconds. The program below takes one.
# It follows every field of every part (plans in expressions, common tables, windows, options); only literals and types
# have nothing to follow.

SOURCE = """
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry$;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;

public class Outline {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  /** All parts in preorder: [number of the part around it, class, texts and flags of its fields, begin, end]. */
  public static String of(Object root) throws Exception {
    List found = new ArrayList();
    ArrayDeque waiting = new ArrayDeque();
    waiting.push(new Object[] {root, Integer.valueOf(-1)});
    while (!waiting.isEmpty()) {
      Object[] next = (Object[]) waiting.pop();
      Object one = next[0];
      if (one instanceof String || one instanceof Number || one instanceof Boolean) continue;
      if (one instanceof scala.collection.Iterable) {
        wait(((scala.collection.Iterable) one).iterator(), next[1], waiting);
        continue;
      }
      List facts = new ArrayList();
      int[] place = place(one);
      Object number = Integer.valueOf(found.size());
      found.add(Arrays.asList(new Object[] {
        next[1], one.getClass().getName(), facts, Integer.valueOf(place[0]), Integer.valueOf(place[1])}));
      if (!(one instanceof scala.Product) || one instanceof DataType || one instanceof Literal) continue;
      scala.collection.Iterator fields = ((scala.Product) one).productIterator();
      while (fields.hasNext()) facts.add(fact(fields.next()));
      wait(((scala.Product) one).productIterator(), number, waiting);
    }
    return write(found);
  }

  private static void wait(scala.collection.Iterator parts, Object parent, ArrayDeque waiting) {
    ArrayDeque reversed = new ArrayDeque();
    while (parts.hasNext()) {
      Object part = parts.next();
      if (part != null) reversed.push(part);
    }
    while (!reversed.isEmpty()) waiting.push(new Object[] {reversed.pop(), parent});
  }

  private static Object fact(Object field) {
    if (field instanceof String || field instanceof Boolean) return field;
    if (!(field instanceof scala.collection.Seq)) return null;
    List texts = new ArrayList();
    scala.collection.Iterator each = ((scala.collection.Iterable) field).iterator();
    while (each.hasNext()) {
      Object text = each.next();
      if (text instanceof String) texts.add(text);
    }
    return texts;
  }

  private static int[] place(Object one) {
    if (!(one instanceof TreeNode)) return new int[] {-1, -1};
    Origin origin = ((TreeNode) one).origin();
    if (!origin.startIndex().isDefined() || !origin.stopIndex().isDefined()) return new int[] {-1, -1};
    return new int[] {
      ((Number) origin.startIndex().get()).intValue(), ((Number) origin.stopIndex().get()).intValue() + 1};
  }

  /** [built-in functions with their groups, names that the session has added], of values and of tables.
      names: those that matter, joined by blanks. */
  public static String functions(FunctionRegistryBase values, FunctionRegistryBase tables, String names)
      throws Exception {
    Set wanted = new HashSet(Arrays.asList(names.split(" ")));
    Map groups = new HashMap();
    List added = new ArrayList();
    divide(values, FunctionRegistry$.MODULE$.builtin(), wanted, groups, added);
    divide(tables, TableFunctionRegistry$.MODULE$.builtin(), wanted, new HashMap(), added);
    return write(Arrays.asList(new Object[] {groups, added}));
  }

  private static void divide(
      FunctionRegistryBase own, FunctionRegistryBase builtin, Set wanted, Map groups, List added) {
    scala.collection.Iterator each = own.listFunction().iterator();
    while (each.hasNext()) {
      FunctionIdentifier name = (FunctionIdentifier) each.next();
      if (!wanted.contains(name.funcName().toLowerCase(Locale.ROOT))) continue;
      scala.Option info = own.lookupFunction(name);
      scala.Option known = builtin.lookupFunction(name);
      if (info.isDefined() && known.isDefined() && info.get() == known.get())
        groups.put(name.funcName(), ((ExpressionInfo) info.get()).getGroup());
      else added.add(name.funcName());
    }
  }

  private static String write(Object found) throws Exception {
    return MAPPER.writeValueAsString(found);
  }
}
"""


# Texts of people who may read some tables and do nothing else: all that Spark parses for them is judged first.
#
# Spark opens files, asks catalogs and runs commands while it analyses a statement. So the judgement is on the parsed
# plan, of which every part must be known: plans that only ask, given tables and the common tables in scope, built-in
# functions that compute values. Expressions of patterns are judged alike.

_CATALYST = "org.apache.spark.sql.catalyst."
_PLANS = frozenset((
    "Aggregate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join", "JoinHint",
    "LateralJoin", "LimitAll", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation", "Pivot", "Project",
    "RepartitionByExpression", "Sample", "SampleMethod$Bernoulli$", "Sort", "SubqueryAlias", "Union", "Unpivot",
    "UnresolvedHint", "UnresolvedWith", "WithWindowDefinition",
))  # fmt: skip
_UNRESOLVED = frozenset((
    "MultiAlias", "NamedParameter", "PosParameter", "UnresolvedAlias", "UnresolvedAttribute",
    "UnresolvedExtractValue", "UnresolvedFunction", "UnresolvedGenerator", "UnresolvedHaving",
    "UnresolvedInlineTable", "UnresolvedQualify", "UnresolvedRegex", "UnresolvedRelation", "UnresolvedStar",
    "UnresolvedStarExceptOrReplace", "UnresolvedStarWithColumns", "UnresolvedSubqueryColumnAliases",
    "UnresolvedTVFAliases", "UnresolvedTableValuedFunction",
))  # fmt: skip
_NOT_EXPRESSIONS = frozenset((
    "CallMethodViaReflection", "FunctionTableSubqueryArgumentExpression", "PythonUDAF", "PythonUDF",
    "PythonUDTF", "ScalaUDF", "TryReflect", "UnresolvedPolymorphicPythonUDTF", "VariableReference",
))  # fmt: skip
"""Expressions that call a program or read a table or a variable; the parser makes none of them of a plain query."""
_DETAILS = re.compile(
    rf"scala\..*|java\.util\.UUID|java\.lang\.Character|org\.apache\.spark\.(?:sql|unsafe)\.types\..*"
    rf"|org\.apache\.spark\.sql\.util\.CaseInsensitiveStringMap"
    rf"|{re.escape(_CATALYST)}(?:AliasIdentifier|FunctionIdentifier|plans\.\w+\$?)"
)
"""Names, types, kinds of joins: parts of plans that do nothing themselves."""
_GROUPS = frozenset((
    "agg_funcs", "array_funcs", "bitwise_funcs", "collection_funcs", "conditional_funcs", "conversion_funcs",
    "csv_funcs", "datetime_funcs", "generator_funcs", "hash_funcs", "json_funcs", "lambda_funcs", "map_funcs",
    "math_funcs", "predicate_funcs", "sketch_funcs", "st_funcs", "string_funcs", "struct_funcs", "url_funcs",
    "variant_funcs", "vector_funcs", "window_funcs", "xml_funcs",
))  # fmt: skip
"""Spark's groups of built-in functions that compute values of values. Those of Avro and Protobuf can read files."""
_OTHER_FUNCTIONS = frozenset((
    "aes_decrypt", "aes_encrypt", "assert_true", "bitmap_bit_position", "bitmap_bucket_number", "bitmap_count",
    "current_catalog", "current_database", "current_schema", "current_user", "hmac", "input_file_block_length",
    "input_file_block_start", "input_file_name", "monotonically_increasing_id", "raise_error", "session_user",
    "spark_partition_id", "try_aes_decrypt", "typeof", "user", "uuid", "version",
))  # fmt: skip
_TABLE_FUNCTIONS = frozenset((
    "collations", "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode",
    "posexplode_outer", "range", "sql_keywords", "stack", "variant_explode", "variant_explode_outer",
))  # fmt: skip
_BUILTIN = ("system", "builtin")
SUBSTITUTION = "${"
"""Spark puts the value of a setting or of an environment variable into the text: '${env:HOME}'."""


@dataclass(frozen=True)
class Refusal:
    """Why a text is refused. begin, end: the place in the text; table: the name of a table that was not given."""

    message: str
    begin: int = 0
    end: int = 0
    table: str | None = None


@dataclass(frozen=True)
class _Part:
    """A part of a parsed plan. facts: its texts and flags; begin, end: its place in the text, if it has one."""

    parent: int
    name: str
    facts: list[Any]
    begin: int
    end: int

    @property
    def kind(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Confinement:
    """Judges the texts that Spark is to parse in a session."""

    spark: SparkSession

    def statement(self, text: str, tables: Collection[str]) -> Refusal | None:
        """The reason to refuse a statement, or None. tables: names it may read, in addition to its common table
        expressions."""
        return _refuse_substitution(text) or self._judge(self._parser.parsePlan(text), tables)

    def expression(self, text: str) -> Refusal | None:
        """Why a scalar expression is refused, if it is."""
        return _refuse_substitution(text) or self._judge(self._parser.parseExpression(text), ())

    def uses_variables(self, analysed: Any) -> bool:
        """Whether an analysed plan reads a variable of the session."""
        if self._state.catalogManager().tempVariableManager().isEmpty():
            return False
        return any(part.kind == "VariableReference" for part in self._parts(analysed))

    def _judge(self, plan: Any, tables: Collection[str]) -> Refusal | None:
        parts = self._parts(plan)
        sensitive = self.spark.conf.get("spark.sql.caseSensitive") == "true"
        return _refusal(parts, tables, self._functions(parts), sensitive)

    def _parts(self, plan: Any) -> list[_Part]:
        return [_Part(*record) for record in json.loads(self._outline.of(plan))]

    def _functions(self, parts: list[_Part]) -> _Functions:
        names = {path[-1].lower() for part in parts for path in [_function_path(part)] if path}
        state = self._state
        values, tables = state.functionRegistry(), state.tableFunctionRegistry()
        builtin, added = json.loads(self._outline.functions(values, tables, " ".join(names)))
        allowed = {name.lower() for name, group in builtin.items() if group in _GROUPS or name in _OTHER_FUNCTIONS}
        return _Functions(frozenset(allowed), frozenset(name.lower() for name in added))

    @property
    def _state(self) -> Any:
        return self.spark._jsparkSession.sessionState()

    @property
    def _parser(self) -> Any:
        return self._state.sqlParser()

    @property
    def _outline(self) -> Any:
        return _compile(self.spark.sparkContext._gateway)


_current: ContextVar[Confinement | None] = ContextVar("confinement", default=None)


@contextmanager
def confine(spark: SparkSession) -> Iterator[None]:
    """Judge every text that episode gives to Spark in this thread."""
    token = _current.set(Confinement(spark))
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Confinement | None:
    """Who judges texts here, if anybody."""
    return _current.get()


@lru_cache(maxsize=1)
def _compile(gateway: Any) -> Any:
    """Compile the program above by the compiler that Spark brings along for its own generated code."""
    java = gateway.jvm.java.lang
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.Thread.currentThread().getContextClassLoader())
    compiler.cook(SOURCE)
    nothing = gateway.new_array(java.Class, 0), gateway.new_array(java.Object, 0)
    return compiler.getClassLoader().loadClass("Outline").getConstructor(nothing[0]).newInstance(nothing[1])


# ---- judging a plan ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Functions:
    """allowed: built-in functions that compute values. added: names of functions that the session registered."""

    allowed: frozenset[str]
    added: frozenset[str]

    def refuse(self, parts: list[str], allowed: Collection[str]) -> bool:
        *path, name = [part.lower() for part in parts]
        builtin = tuple(path) in ((), _BUILTIN[1:], _BUILTIN)
        return not builtin or name not in allowed or name in self.added


def _refuse_substitution(text: str) -> Refusal | None:
    at = text.find(SUBSTITUTION)
    return None if at < 0 else Refusal("Settings and variables of the environment are not read here.", at, at + 2)


def _refusal(parts: list[_Part], tables: Collection[str], functions: _Functions, sensitive: bool) -> Refusal | None:
    """The first part of a plan that is not allowed. sensitive: whether the case of names counts."""
    scopes = _scopes(parts, tables, sensitive)
    for number, part in enumerate(parts):
        found = _refused_part(part, parts, functions)
        if found is None and part.kind == "UnresolvedRelation":
            path = [str(one) for one in part.facts[0]]
            if len(path) != 1 or _fold_case(path[0], sensitive) not in scopes[number]:
                name = ".".join(path)
                found = Refusal(f"{name} is not one of the tables that were given.", table=name)
        if found is not None:
            placed = part
            while placed.begin < 0 <= placed.parent:
                placed = parts[placed.parent]
            return Refusal(found.message, placed.begin, placed.end, found.table)
    return None


def _refused_part(part: _Part, parts: list[_Part], functions: _Functions) -> Refusal | None:
    if not _is_known(part.name):
        return Refusal(f"{_words(part.kind)} is not allowed here.")
    path = _function_path(part)
    of_tables = part.kind == "UnresolvedTableValuedFunction"
    if path and functions.refuse(path, _TABLE_FUNCTIONS if of_tables else functions.allowed):
        return Refusal(f"{'.'.join(path)} cannot be called here.")
    if part.kind == "Some" and parts[part.parent].kind == "FunctionIdentifier":
        return Refusal(f"{parts[part.parent].facts[0]} cannot be called by a qualified name here.")
    return None


def _function_path(part: _Part) -> list[str]:
    """The name of the function that a part calls, with its catalog and schema if they are written."""
    if part.kind in ("UnresolvedFunction", "UnresolvedTableValuedFunction"):
        return [str(one) for one in part.facts[0]]
    return [str(part.facts[0])] if part.kind == "FunctionIdentifier" else []


def _is_known(name: str) -> bool:
    if not name.startswith(_CATALYST) or _DETAILS.fullmatch(name):
        return _DETAILS.fullmatch(name) is not None
    package, _, kind = name.removeprefix(_CATALYST).rpartition(".")
    if package == "plans.logical":
        return kind in _PLANS
    if package == "analysis":
        return kind in _UNRESOLVED
    return package in ("expressions", "expressions.aggregate") and kind not in _NOT_EXPRESSIONS


def _words(kind: str) -> str:
    """`InsertIntoStatement` as `insert into statement`."""
    words = re.findall(r"[A-Z][a-z0-9]*|[a-z0-9]+", kind)
    return " ".join(words).capitalize() if words else kind


def _scopes(parts: list[_Part], tables: Collection[str], sensitive: bool) -> list[frozenset[str]]:
    """The names of tables that each part sees: those of the parts around it, and of the WITH lists on the way.

    Definitions see those before them, and themselves if they are recursive. Spark does not look for common tables in
    the definitions of windows, so nothing is seen there.
    """
    lists: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        if part.parent >= 0 and parts[part.parent].kind == "UnresolvedWith" and part.kind == "Tuple3":
            lists.setdefault(part.parent, []).append(number)
    scopes: list[frozenset[str]] = []
    base = frozenset(_fold_case(one, sensitive) for one in tables)
    for number, part in enumerate(parts):
        if part.parent < 0:
            scopes.append(base)
            continue
        around, above = scopes[part.parent], parts[part.parent]
        if above.kind == "WithWindowDefinition" and part.kind == "Tuple2":
            around = frozenset()
        if part.parent in lists:
            own = lists[part.parent]
            seen = own[: own.index(number) + bool(above.facts[2])] if number in own else own
            around |= {_fold_case(str(parts[one].facts[0]), sensitive) for one in seen}
        scopes.append(around)
    return scopes


def _fold_case(name: str, sensitive: bool) -> str:
    return name if sensitive else name.lower()


# The one way on which texts of queries reach Spark's parser: confined ones are judged first.

ONLY_QUERIES = "Only queries are run here, and only over the tables that were given."
"""The hint of every refusal."""


class RefusedStatement(Exception):
    """A confined statement that may not run. The place in `refusal` is one in the text as Spark would parse it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def expr(text: str) -> Column:
    """A scalar expression."""
    return F.expr(check_expression(text))


def check_expression(text: str) -> str:
    """The text of a scalar expression, if it may be parsed."""
    confinement = current()
    refusal = None if confinement is None else confinement.expression(text)
    if refusal is not None:
        raise EpisodeUnsupportedError(refusal.message, hint=ONLY_QUERIES)
    return text


def sql(spark: SparkSession, text: str, arguments: Mapping[str, object], frames: Mapping[str, DataFrame]) -> DataFrame:
    """`spark.sql` of a text with DataFrames in braces; other braces are doubled in it."""
    confinement = current()
    if confinement is not None:
        views = {name: f"_pyspark_{uuid4().hex}" for name in frames}  # as long as PySpark's, and nobody else's
        refusal = confinement.statement(text.format(**views), list(views.values()))
        if refusal is not None:
            raise RefusedStatement(refusal)
    bound: dict[str, Any] = {"args": dict(arguments)} if arguments else {}
    plain = text if frames else text.replace("{{", "{").replace("}}", "}")
    return spark.sql(plain, **bound, **frames)


# What a DataFrame reads, by its plan: for those who let others write queries over few tables only.

_OF_NO_TABLE = frozenset({"LocalRelation", "OneRowRelation", "Range", "LogicalRDD", "CTERelationRef", "UnionLoopRef"})
"""Leaves of plans that reach no file and no table of a catalog: values of the text, and those of given tables. Rows of
a temporary view look the same here: names of views that were not given are refused first."""


def foreign_reads(frame: DataFrame, tables: Iterable[DataFrame]) -> list[str]:
    """Describe what a DataFrame reads in addition to the tables; it has not run yet."""
    plan = analysed_plan(frame)
    leaves = [leaf for one in [plan, *items(plan.subqueriesAll())] for leaf in items(one.collectLeaves())]
    foreign = [leaf for leaf in leaves if class_of(leaf) not in _OF_NO_TABLE]
    if not foreign:
        return []
    given = [leaf for table in tables for leaf in items(analysed_plan(table).collectLeaves())]
    known = [relation for relation in map(_relation, given) if relation is not None]
    relations = [(leaf, _relation(leaf)) for leaf in foreign]
    return [
        leaf.nodeName()
        for leaf, relation in relations
        if relation is None or not any(relation.equals(one) for one in known)
    ]


def analysed_plan(frame: DataFrame) -> Any:
    """The plan of a DataFrame with all names resolved."""
    return frame._jdf.queryExecution().analyzed()


def _relation(leaf: Any) -> Any:
    """Identity of a leaf: equal for leaves of the same table."""
    kind = class_of(leaf)
    if kind == "LogicalRelation":
        return leaf.relation()
    return leaf.table() if kind.startswith("DataSourceV2") else None
