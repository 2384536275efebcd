"""The plan of one event pattern: everything the matcher needs, with nothing left to resolve.

Two engines: trees of joins (skip-till-any-match without SASE's closures) and the automaton (everything else). A plain
sequence can run on either; the matcher chooses by cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.events.syntax import (
    Closure,
    EventPattern,
    EventQuery,
    Negation,
    Strategy,
    children,
    classes_of,
)
from episode.lang.syntax import ColumnRef
from episode.plan.derived import DerivedColumns
from episode.plan.event_time import in_units_of_time
from episode.plan.events.automaton import AutomatonPlan
from episode.plan.events.bounds import bounds_of
from episode.plan.events.classes import EventClasses
from episode.plan.events.closures import (
    check_groups_and_choices,
    check_repeated_variables,
    chooses,
    with_negated_closures,
)
from episode.plan.events.collapsing import Collapsed, check_collapsed, check_parted
from episode.plan.events.conditions import (
    Conjunct,
    EventScalars,
    JoinTest,
    conjunct_of,
    event_variables,
    is_per_event,
    same_column,
    split_tests,
)
from episode.plan.events.consistency import ClosurePredicate, closure_predicate
from episode.plan.events.counting import Collapse, plan_counts
from episode.plan.events.imprecise import (
    ImprecisePlan,
    check_confidence_has_meaning,
    check_imprecise,
    check_results,
    plan_imprecise,
)
from episode.plan.events.linear import is_linear, linear
from episode.plan.events.names import MARK, with_first_events, with_groups_between_places, with_unique_variables
from episode.plan.events.postponed import (
    AUTO,
    ON_THE_FLY,
    POSTPONED,
    RUNS,
    Construction,
    Parted,
    part_query,
    places_of,
    reason_for_runs,
    whole_conditions,
)
from episode.plan.events.presence import always, presences
from episode.plan.events.returns import EventTimes, Returns
from episode.plan.events.states import plan_automaton
from episode.plan.events.tree import (
    Absent,
    Group,
    InSequence,
    Leaf,
    Node,
    Together,
    absences,
    groups_of,
    is_open_ended,
    logical_tree,
    simplify,
    variables_of,
)
from episode.plan.expressions import (
    Apply,
    Current,
    Expression,
    Load,
    Navigated,
    Running,
    conjuncts,
    walk,
)
from episode.plan.labels import Labels
from episode.plan.output import MeasurePlan, Output
from episode.plan.parameters import bound_duration
from episode.plan.pattern import OrderColumn, PatternPlan
from episode.plan.reading import columns_read, expressions_of
from episode.plan.scalars import RowLocalScalars
from episode.plan.tables import CLASS_COLUMN
from episode.plan.types import is_event_time, lane_of

MOST_VARIABLES = 63


@dataclass(frozen=True, kw_only=True)
class EventPlan(PatternPlan):
    """One event pattern over one input.

    variables: all of them, negated ones too; a row's qualification for variable i is bit i. local: what a row must
    satisfy by itself, per variable. tree, tests: the logical tree, and what relates single events. absent_tests,
    group_tests: what makes an event a negating one (by name of the negation), or one of a group (by variable).
    automaton: for all else, and as the other way for plain sequences. construction: how the matches are made of those
    of the tree, where these have all events that closures choose from; why_runs: why there is none. keeps: how many
    conditions Spark tests on the matches, the last measures. predicates: the conjuncts about closures that
    choose their events, with their classes. collapse: how final matches are counted, where intermediate ones are asked
    for. imprecise: where time is.
    """

    strategy: Strategy
    variables: tuple[str, ...]
    closures: frozenset[str]
    times: EventTimes
    local: dict[str, tuple[Expression, ...]]
    overlapping: bool
    tree: Node | None
    tests: tuple[JoinTest, ...]
    absent_tests: dict[str, tuple[JoinTest, ...]]
    group_tests: dict[str, tuple[JoinTest, ...]]
    automaton: AutomatonPlan | None
    keeps: int
    imprecise: ImprecisePlan | None = None
    notes: tuple[str, ...] = ()
    construction: Construction | None = None
    why_runs: str | None = None
    predicates: tuple[ClosurePredicate, ...] = ()
    collapse: Collapse | None = None

    @property
    def waits(self) -> bool:
        """Are matches decided only when their window has passed? Then what lies before them is kept for as long."""
        if self.tree is not None:
            late = self.construction is not None and self.construction.automaton.waits
            return late or is_open_ended(self.tree)
        return self.automaton is not None and self.automaton.waits


def plan_event_pattern(
    query: EventQuery,
    classes: EventClasses,
    times: EventTimes,
    keys: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    closure: str = AUTO,
    collapsed: Collapsed | None = None,
) -> EventPlan:
    """Bind a query to its input, check it, choose how it is evaluated. closure: one of `postponed.ENGINES`.

    collapsed: are intermediate matches asked for, and how are they counted? RETURN may ask for them as well."""
    try:
        return EventPlanner(query, classes, times, keys, strategy, closure, collapsed or Collapsed()).plan()
    except RecursionError:
        raise query.source.error(
            EpisodeUnsupportedError,
            "The pattern or the expressions of this query are nested too deeply.",
            query.source.pattern.beginning,
            "Compute parts of the expressions as columns first.",
        ) from None


class EventPlanner:
    """Plans one query, step by step; `aggregated` takes steps of it for aggregates over all matches."""

    def __init__(
        self,
        query: EventQuery,
        classes: EventClasses,
        times: EventTimes,
        keys: tuple[str, ...],
        strategy: Strategy | None,
        closure: str,
        collapsed: Collapsed,
    ) -> None:
        self.query = query
        self.collapsed = replace(collapsed, asked=collapsed.asked or query.collapsed is not None)
        self.closure = closure
        self.strategy = self._strategy(strategy)
        self.imprecise: ImprecisePlan | None = None
        if times.imprecise is None:
            check_confidence_has_meaning(query)
        else:
            check_imprecise(query, self.strategy)
            self.imprecise = plan_imprecise(query, classes.schema)
            check_results(query, closure != AUTO, self.collapsed.asked)
        if self.strategy is not Strategy.NEXT:  # there are no groups, and alternatives have a run in common
            query = replace(query, pattern=with_groups_between_places(query.pattern))
        check_repeated_variables(query)
        pattern, self.alone = query.pattern, frozenset[str]()
        if self.strategy is Strategy.ANY:
            pattern, self.alone = with_first_events(query.pattern)
        self._check_alone(query.pattern)
        query, self.renamed = with_unique_variables(replace(query, pattern=pattern), self.alone)
        every = {one.variable: one for one in classes_of(query.pattern)}
        classes = replace(classes, query=query, by_variable=every)
        self.query = query
        self.classes = classes
        self.schema = classes.schema
        self.times = times
        self.keys = list(keys)
        self.derived = DerivedColumns(self.schema)
        self.variables = tuple(every)
        self.rows = RowLocalScalars(query.source, self.schema, self.derived)
        self.closures = frozenset(_inside(query.pattern, Closure))
        self.negated = frozenset(_inside(query.pattern, Negation))
        self.scalars = EventScalars(classes, self.rows, self.closures)
        self.notes: list[str] = []

    def plan(self) -> EventPlan:
        query = self.query
        self._check_size()
        self._check_closure()
        self.classes.check()
        within = self._within()
        conjuncts_ = [conjunct_of(scalar, self.closures | self.alone) for scalar in query.conditions]
        self._check_conjuncts(conjuncts_)
        local: dict[str, list[Expression]] = {name: [] for name in self.variables}
        for name in self.variables:
            member = self.classes.member(name)
            if member is not None:
                local[name].append(member)
        same = self._same_attributes(conjuncts_, local)
        related = self._pull_local(conjuncts_, local)
        predicates = self._predicates(conjuncts_, local) if self.imprecise is None else ()
        pattern = with_negated_closures(query, query.pattern, conjuncts_)
        gone = set(self.variables) - {one.variable for one in classes_of(pattern)}
        related = [conjunct for conjunct in related if not conjunct.variables & gone]
        if self.strategy is Strategy.ANY:
            check_groups_and_choices(query, pattern)
        rewriting = simplify(pattern)
        self.notes += [f"rewritten: {step}" for step in rewriting.steps]
        postpones = chooses(pattern) and self.imprecise is None
        uses_automaton = self.imprecise is not None or self.strategy is not Strategy.ANY or postpones
        kept: list[Conjunct] = []
        tree, automaton = None, None
        tests: list[JoinTest] = []
        absent_tests: dict[str, tuple[JoinTest, ...]] = {}
        group_tests: dict[str, tuple[JoinTest, ...]] = {}
        construction, why_runs, collapse = None, None, None
        if self.collapsed.asked:
            check_collapsed(query, rewriting.pattern, self.strategy, self.closure)
            automaton = self._automaton(rewriting.pattern, related, same, kept)
            related = [conjunct for conjunct in related if not any(conjunct is one for one in kept)]
            parted = part_query(rewriting.pattern, related, self.closures)
            check_parted(query, parted, kept, self.closures)
            tree = logical_tree(query, parted.matching)
            tests, absent_tests, group_tests = self._tree_tests(tree, list(parted.early), kept)
            collapse = self._collapse(parted, local)
            if collapse.enumerated:
                construction = self._construction(parted, tests, group_tests)
            automaton = None
        elif uses_automaton:
            automaton = self._automaton(rewriting.pattern, related, same, kept)
            if postpones:
                why_runs = self._why_runs(rewriting.pattern)
            if why_runs is None and postpones:
                related = [conjunct for conjunct in related if not any(conjunct is one for one in kept)]
                parted = part_query(rewriting.pattern, related, self.closures)
                tree = logical_tree(query, parted.matching)
                tests, absent_tests, group_tests = self._tree_tests(tree, list(parted.early), kept)
                construction = self._construction(parted, tests, group_tests)
                if construction.engine == POSTPONED:
                    tests, group_tests = [], dict.fromkeys(group_tests, ())
                automaton = automaton if self.closure == AUTO else None
        else:
            tree = logical_tree(query, rewriting.pattern)
            self._check_tree(tree)
            tests, absent_tests, group_tests = self._tree_tests(tree, related, kept)
            if is_linear(rewriting.pattern) and not kept:
                automaton = self._automaton(rewriting.pattern, related, same, [])
        labels = Labels(self.variables, {name: frozenset(new) for name, new in self.renamed.items()})
        closures, there = self._closure_names(), presences(query.pattern)
        returns = Returns(query.source, self.schema, labels, self.derived, self.classes, closures, there)
        positives = [name for name in self.variables if name not in self.negated]
        if query.returns is None:
            planned = [returns.whole(name) for name in dict.fromkeys(name.split(MARK)[0] for name in positives)]
        else:
            planned = [returns.item(item) for item in query.returns]
        planned += returns.times(self.times)
        if collapse is not None:
            planned.append(returns.counted(collapse.exact))
        if self.imprecise is not None:
            planned.append(returns.confidence())
        planned += [returns.kept(conjunct, number) for number, conjunct in enumerate(kept)]
        measures = MeasurePlan(planned, returns.atoms)
        engines = automaton, construction, collapse
        found = self._expressions(local, tests, absent_tests, group_tests, engines, measures)
        read = columns_read(found, measures)
        needed = [*self.keys, self.times.end, *([self.times.start] if self.times.start else []), *read]
        if self.times.imprecise is not None and self.times.imprecise.probabilities is not None:
            needed.append(self.times.imprecise.probabilities)
        derived_types = {name: type_ for _, (name, type_) in self.derived.by_sql.items()}
        return EventPlan(
            source=query.source,
            output=Output(labels, measures),
            order=(OrderColumn(self.times.end),),
            strategy=self.strategy,
            variables=self.variables,
            closures=self.closures,
            keys=tuple(self.keys),
            times=self.times,
            within=within,
            window=None if query.within is None else query.within.span,
            local={name: tuple(parts) for name, parts in local.items()},
            overlapping=any(
                not self.classes.exclusive(one, other)
                for names in (positives, set(self.variables) - set(positives))  # of the match, and of negations
                for one in names
                for other in names
                if one < other
            ),
            tree=tree,
            tests=tuple(tests),
            absent_tests=absent_tests,
            group_tests=group_tests,
            automaton=automaton,
            keeps=len(kept),
            imprecise=self.imprecise,
            input_columns=tuple(dict.fromkeys(needed)),
            derived=tuple((sql, name) for sql, name in self.derived.selections() if name in set(needed)),
            types={**self.schema.columns, **derived_types},
            notes=tuple(self.notes),
            construction=construction,
            why_runs=why_runs,
            predicates=predicates,
            collapse=collapse,
        )

    def _closure_names(self) -> frozenset[str]:
        """Closures as the user calls them."""
        return self.closures | {name.split(MARK)[0] for name in self.closures}

    # ---- checks ----------------------------------------------------------------------------------------------

    def _check_size(self) -> None:
        if len(self.variables) > MOST_VARIABLES:
            message = f"The pattern has {len(self.variables)} variables; at most {MOST_VARIABLES} are supported."
            raise self.query.source.error(
                EpisodeUnsupportedError, message, self.query.source.pattern, "Split it into several patterns."
            )

    def _check_alone(self, pattern: EventPattern) -> None:
        """A closure that stands alone has its variable for itself."""
        for name in sorted(self.alone):
            places = [one for one in classes_of(pattern) if one.variable == name]
            if len(places) > 1:
                raise self.query.source.error(
                    EpisodeUnsupportedError,
                    f"{name} is the variable of a closure that stands alone, and of another alternative.",
                    places[-1].span,
                    "Give each its own variable.",
                )

    def _strategy(self, option: Strategy | None) -> Strategy:
        written = self.query.strategy
        if written is not None and option is not None and written is not option:
            raise self.query.source.error(
                EpisodeAnalysisError,
                f"The query says {written.value}, and strategy= says {option.value}.",
                self.query.strategy_span,
                "Leave one of the two out.",
            )
        return written or option or Strategy.ANY

    def _within(self) -> int | None:
        within = self.query.within
        if within is None:
            return None
        if not is_event_time(self.times.type):
            raise self.query.source.error(
                EpisodeAnalysisError,
                f"The event time {self.times.end} is of type {self.times.type}.",
                within.span,
                "Event time is a timestamp, a date or an integer.",
            )
        within = bound_duration(within, self.schema.arguments, self.query.source)
        return in_units_of_time(
            within,
            self.query.source,
            self.times.end,
            self.times.type,
            what="WITHIN",
            plain="Write a plain number, in the unit of the time itself: WITHIN 200.",
            with_unit=f"Write for example WITHIN {within.amount} seconds.",
        )

    def _check_conjuncts(self, conjuncts_: list[Conjunct]) -> None:
        for conjunct in conjuncts_:
            negated = conjunct.variables & self.negated
            if negated and conjunct.iterated is not None and conjunct.iterated not in self.negated:
                raise self.query.source.error(
                    EpisodeUnsupportedError,
                    "A condition cannot relate a negated event to each event of a closure.",
                    conjunct.scalar.span,
                    "Compare it with the closure's first or last event, b[1] or b[last], or an aggregate.",
                )

    def _check_tree(self, tree: Node) -> None:
        if self.times.start is not None and _has_neighbours(tree):
            raise self.query.source.error(
                EpisodeUnsupportedError,
                "Two closures side by side are not evaluated for events that last.",
                self.query.source.pattern,
                "Put an event between them, or write SEQ(A a, B+ b[], C+ c[], D d) for every choice of events.",
            )
        if self.classes.tables or self.classes.type_column is not None:
            return
        if any(True for _ in groups_of(tree)) and _has_conjunction(tree):
            raise self.query.source.error(
                EpisodeUnsupportedError,
                "A closure beside a conjunction needs classes that exclude each other.",
                self.query.source.pattern,
                "Give a type_column, or one table per class.",
            )

    # ---- [attr] ------------------------------------------------------------------------------------------------

    def _same_attributes(self, conjuncts_: list[Conjunct], local: dict[str, list[Expression]]) -> list[str]:
        """Columns equal in all events: partition keys, or what strict contiguity has to test event by event."""
        columns = []
        for attribute in self.query.same:
            if attribute.path[0] in self.variables and self.schema.find(attribute.path[0]) is None:
                raise self.query.source.error(
                    EpisodeAnalysisError,
                    f"[{'.'.join(attribute.path)}] names an event; brackets take an attribute of all events.",
                    attribute.span,
                    f"Write [{'.'.join(attribute.path[1:]) or 'attribute'}].",
                )
            names = {
                self._plain_column(self.classes.column(name, attribute.path, attribute.span)) for name in self.variables
            }
            if len(names) > 1:
                raise self.query.source.error(
                    EpisodeUnsupportedError,
                    f"[{'.'.join(attribute.path)}] is of different types in the tables.",
                    attribute.span,
                    "Cast it to one type in the tables.",
                )
            column = names.pop()
            if lane_of(self._type_of(column)) is None:
                raise self.query.source.error(
                    EpisodeUnsupportedError,
                    f"{'.'.join(attribute.path)} is of type {self._type_of(column)}: not compared across events.",
                    attribute.span,
                    "Use an attribute of an atomic type.",
                )
            columns.append(column)
        equal = self._equal_everywhere(conjuncts_) if self.strategy in (Strategy.ANY, Strategy.NEXT) else []
        columns += equal
        certain = always(self.query.pattern)
        if self.strategy is Strategy.PARTITION and not columns and not self.keys:
            raise self.query.source.error(
                EpisodeAnalysisError,
                "partition-contiguity needs to know the partition.",
                self.query.strategy_span,
                "Add [attribute] to WHERE, or give key=.",
            )
        rest = []
        for column in dict.fromkeys(columns):
            type_ = self._type_of(column)
            if lane_of(type_) is None:
                continue
            known = Apply("not", (Apply("is_null", (Load(column, Current(0), type_),), "boolean"),), "boolean")
            for name in self.variables:
                # Of the only event that is always there nothing is demanded where the others are not.
                if column not in equal or certain != [name]:
                    local[name].append(known)
            if self.strategy is Strategy.STRICT:
                rest.append(column)
            elif column not in self.keys:
                self.keys.append(column)
        return rest

    def _type_of(self, column: str) -> str:
        """The type of a column of the input, or of one that Spark derives."""
        if column in self.schema.columns:
            return self.schema.columns[column]
        return next(type_ for name, type_ in self.derived.by_sql.values() if name == column)

    def _plain_column(self, reference: ColumnRef) -> str:
        load = self.rows.load(reference, Current(0))
        assert isinstance(load, Load)
        return load.column

    def _equal_everywhere(self, conjuncts_: list[Conjunct]) -> list[str]:
        """Columns that conditions `a.x = b.x` make equal in all events; those conditions are done with."""
        edges: dict[str, list[tuple[Conjunct, str, str]]] = {}
        for conjunct in conjuncts_:
            pair = same_column(conjunct)
            if pair is not None:
                left, right = (self.scalars.column(side) for side in pair)
                if left.path == right.path and lane_of(self._type_of(self._plain_column(left))) is not None:
                    edges.setdefault(self._plain_column(left), []).append(
                        (conjunct, pair[0].variable, pair[1].variable)
                    )
        found = []
        for column, links in edges.items():
            if self._connected([(one, other) for _, one, other in links]):
                found.append(column)
                for conjunct, _, _ in links:
                    conjuncts_.remove(conjunct)
                self.notes.append(f"{column} is equal in all events: a partition key")
        return found

    def _connected(self, links: list[tuple[str, str]]) -> bool:
        """Do the links reach every variable, along variables that every match has? (A negated or optional one may
        hang on them, but nothing may hang on it alone.)"""
        sure = set(always(self.query.pattern))
        reached = {next(iter(sure))} if sure else set()
        changed = True
        while changed:
            changed = False
            for one, other in links:
                for here, there in ((one, other), (other, one)):
                    if here in reached and here in sure and there not in reached:
                        reached.add(there)
                        changed = True
        return reached >= set(self.variables)

    # ---- conditions ------------------------------------------------------------------------------------------

    def _pull_local(self, conjuncts_: list[Conjunct], local: dict[str, list[Expression]]) -> list[Conjunct]:
        """Conditions on one event go to its row; the others are returned."""
        related = []
        for conjunct in conjuncts_:
            if len(conjunct.variables) == 1 and not conjunct.whole and conjunct.back == 0:
                (name,) = conjunct.variables
                expression = self.scalars.compile(conjunct.scalar, name)
                if expression is not None and not any(_relates_events(node) for node in walk(expression)):
                    local[name] += conjuncts(expression)
                    continue
            if not conjunct.variables:
                expression = self.scalars.compile(conjunct.scalar, None)
                if expression is not None:
                    first = next(name for name in self.variables if name not in self.negated)
                    local[first].append(expression)
                    for name in self.variables:
                        if name not in self.negated and name != first:
                            local[name].append(expression)
                    continue
            related.append(conjunct)
        return related

    def _predicates(
        self, conjuncts_: list[Conjunct], local: dict[str, list[Expression]]
    ) -> tuple[ClosurePredicate, ...]:
        """What is said of closures that choose their events, each with its class."""
        choosing = frozenset(_choosing(self.query.pattern))
        return tuple(
            closure_predicate(conjunct, self._compiled(conjunct, conjunct.iterated), choosing, local)
            for conjunct in conjuncts_
            if conjunct.variables & choosing
        )

    def _automaton(
        self, pattern: EventPattern, related: list[Conjunct], same: list[str], kept: list[Conjunct]
    ) -> AutomatonPlan:
        inside = []
        for conjunct in related:
            if self._compiled(conjunct, conjunct.iterated) is not None:
                inside.append(conjunct)
            elif self.strategy is Strategy.NEXT or conjunct.variables & self.negated:
                raise self.scalars.not_evaluated(conjunct.scalar)
            else:
                kept.append(conjunct)

        def compile_(conjunct: Conjunct, current: str | None) -> Expression:
            expression = self._compiled(conjunct, current)
            assert expression is not None
            return expression

        def equal(variable: str) -> list[Expression]:
            out: list[Expression] = []
            for column in same:
                type_ = self._type_of(column)
                start = Load(column, Navigated(None, True, 0, 0), type_)
                out.append(Apply("eq", (Load(column, Current(0), type_), start), "boolean"))
            return out

        forks = self.strategy is Strategy.NEXT
        return plan_automaton(self.query, linear(self.query, pattern, together=forks), inside, compile_, equal, forks)

    def _why_runs(self, pattern: EventPattern) -> str | None:
        """Why the closures of SEQ are evaluated by runs, one for each choice; None if they are postponed."""
        if self.closure == RUNS:
            return "asked for by Options(closure='runs')"
        reason = reason_for_runs(pattern)
        if self.strategy is not Strategy.ANY:
            reason = f"{self.strategy.value} follows each run by itself"
        if reason is not None and self.closure != AUTO:
            raise self.query.source.error(
                EpisodeUnsupportedError,
                f"Options(closure={self.closure!r}): this pattern cannot be postponed: {reason}.",
                self.query.source.pattern,
                "Leave closure= out, or write Options(closure='runs').",
            )
        return reason

    def _check_closure(self) -> None:
        """How closures are evaluated can be said where SEQ has one."""
        if self.closure != AUTO and not chooses(self.query.pattern):
            raise self.query.source.error(
                EpisodeAnalysisError,
                f"Options(closure={self.closure!r}): there is no closure inside SEQ in this pattern.",
                self.query.source.pattern,
                "Leave closure= out. It is for SEQ(A a, B+ b[], C c), where every choice of events is a match.",
            )

    def _construction(
        self, parted: Parted, tests: list[JoinTest], group_tests: dict[str, tuple[JoinTest, ...]]
    ) -> Construction:
        automaton = self._automaton(parted.constructing, list(parted.late), [], [])
        places = [places_of(steps) for group in linear(self.query, parted.constructing, False) for steps in group]
        early = bool(tests) or any(group_tests.values())
        engine = self.closure
        if engine == AUTO:
            engine = ON_THE_FLY if early else POSTPONED
        made = Construction(
            engine,
            automaton,
            tuple(places),
            postponed=tuple(dict.fromkeys(conjunct.text for conjunct in parted.late)),
            bounds=bounds_of(whole_conditions(automaton), self.closures, frozenset(self.variables) - self.closures),
        )
        if self.closure != POSTPONED:
            return made
        return replace(made, tests=tuple(tests), group_tests=group_tests)

    def _collapse(self, parted: Parted, local: dict[str, list[Expression]]) -> Collapse:
        sequences = [steps for group in linear(self.query, parted.constructing, False) for steps in group]
        late = [
            closure_predicate(conjunct, self._compiled(conjunct, conjunct.iterated), self.closures, local)
            for conjunct in parted.late
        ]
        return plan_counts(sequences, late, self.collapsed.exact)

    def _compiled(self, conjunct: Conjunct, current: str | None) -> Expression | None:
        return self.scalars.compile(conjunct.scalar, current)

    def _tree_tests(
        self, tree: Node, related: list[Conjunct], kept: list[Conjunct]
    ) -> tuple[list[JoinTest], dict[str, tuple[JoinTest, ...]], dict[str, tuple[JoinTest, ...]]]:
        tests: list[JoinTest] = []
        by_absent: dict[str, list[JoinTest]] = {absent.name: [] for absent in absences(tree)}
        owner = {name: absent for absent in absences(tree) for name in variables_of(absent)}
        by_group: dict[str, list[JoinTest]] = {group.variable: [] for group in groups_of(tree)}
        for conjunct in related:
            negated = conjunct.variables & self.negated
            if negated:
                self._absent_test(conjunct, {owner[name].name: owner[name] for name in negated}, by_absent)
            elif conjunct.iterated is not None and not conjunct.whole and is_per_event(conjunct):
                expression = self._compiled(conjunct, None)
                if expression is None or conjunct.variables & self.closures != {conjunct.iterated}:
                    raise self.scalars.not_evaluated(conjunct.scalar)
                by_group[conjunct.iterated] += split_tests(expression, conjunct.text)
            elif conjunct.variables & (self.closures | self.alone):
                kept.append(conjunct)
            else:
                expression = self._compiled(conjunct, None)
                if expression is None:
                    kept.append(conjunct)
                else:
                    tests += split_tests(expression, conjunct.text)
        return (
            tests,
            {name: tuple(parts) for name, parts in by_absent.items()},
            {name: tuple(parts) for name, parts in by_group.items()},
        )

    def _absent_test(self, conjunct: Conjunct, owners: dict[str, Absent], by_absent: dict[str, list[JoinTest]]) -> None:
        if len(owners) > 1:
            raise self.query.source.error(
                EpisodeUnsupportedError,
                "A condition cannot relate the events of two negations.",
                conjunct.scalar.span,
                "Negate a sequence of both.",
            )
        if conjunct.whole:
            raise self.query.source.error(
                EpisodeUnsupportedError,
                "A condition cannot relate a negated event to a group.",
                conjunct.scalar.span,
                "Compare it with single events.",
            )
        expression = self._compiled(conjunct, None)
        if expression is None:
            raise self.scalars.not_evaluated(conjunct.scalar)
        by_absent[next(iter(owners))] += split_tests(expression, conjunct.text)

    def _expressions(
        self,
        local: dict[str, list[Expression]],
        tests: list[JoinTest],
        absent_tests: dict[str, tuple[JoinTest, ...]],
        group_tests: dict[str, tuple[JoinTest, ...]],
        engines: tuple[AutomatonPlan | None, Construction | None, Collapse | None],
        measures: MeasurePlan,
    ) -> list[Expression]:
        found = [part for parts in local.values() for part in parts]
        found += [test.expression for test in tests]
        found += [test.expression for parts in (*absent_tests.values(), *group_tests.values()) for test in parts]
        automaton, construction, collapse = engines
        if automaton is not None:
            found += [check.expression for check in automaton.checks]
        if construction is not None:
            found += construction.expressions
        if collapse is not None:
            found += collapse.expressions
        return expressions_of(found, measures)

    # ---- errors ------------------------------------------------------------------------------------------------


def _relates_events(node: Expression) -> bool:
    return isinstance(node, Running) or (isinstance(node, Load) and isinstance(node.at, Navigated))


def _inside(pattern: EventPattern, kind: type) -> list[str]:
    """Variables under nodes of a kind."""
    if isinstance(pattern, kind):
        return [one.variable for one in classes_of(pattern)]
    return [name for part in children(pattern) for name in _inside(part, kind)]


def _choosing(pattern: EventPattern) -> list[str]:
    """Variables of closures in SASE's meaning."""
    if isinstance(pattern, Closure) and not pattern.groups:
        return [one.variable for one in classes_of(pattern)]
    return [name for part in children(pattern) for name in _choosing(part)]


def _has_conjunction(node: Node) -> bool:
    if isinstance(node, Leaf):
        return False
    if isinstance(node, Together):
        return True
    return any(_has_conjunction(part) for part in (node.places if isinstance(node, InSequence) else node.parts))


def _has_neighbours(node: Node) -> bool:
    """Do two groups stand side by side?"""
    if isinstance(node, Leaf):
        return False
    if isinstance(node, InSequence) and any(sum(isinstance(one, Group) for one in gap) > 1 for gap in node.gaps):
        return True
    return any(_has_neighbours(part) for part in (node.places if isinstance(node, InSequence) else node.parts))


__all__ = ["CLASS_COLUMN", "EventPlan", "JoinTest", "event_variables", "plan_event_pattern"]


__all__ = ["EventPlan", "EventQuery", "JoinTest", "Strategy", "plan_event_pattern"]
