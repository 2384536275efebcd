"""From a query and data, where they are given, to its profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from episode.errors import EpisodeAnalysisError
from episode.queries.language import Given
from episode.sizing.bound import SizedQuery, bound_to, read_pattern
from episode.sizing.constants import Constants
from episode.sizing.demand import Demand
from episode.sizing.measuring import LEAST_ROWS, measured
from episode.sizing.profile import ROWS, QueryProfile, assumed_profile
from episode.sizing.samples import MOST_ROWS, made_up, read_columns, read_sample

NOT_GIVEN = "no query: the constants of the tick query (A B+ C* D+ from every row)"
NOT_MEASURED = "not measured: the constants of its language's example"


@dataclass(frozen=True)
class Asked:
    """text: of the query, None: none. sample: a path of data. columns: of made-up data. rows: at most so many are
    measured. arguments: the values of parameters."""

    text: str | None = None
    sample: str | None = None
    columns: str | None = None
    rows: int = MOST_ROWS
    given: Given = field(default_factory=Given)
    arguments: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.sample is not None and self.columns is not None:
            raise EpisodeAnalysisError("--columns is for made-up rows, --sample for given ones: give one of them.")
        if self.text is None and (self.sample is not None or self.columns is not None):
            option = "--sample" if self.sample is not None else "--columns"
            raise EpisodeAnalysisError(f"{option} is to measure a query: give it with --query.")

    def profile(self, demand: Demand, constants: Constants) -> QueryProfile:
        """Measured where there is something to measure it on."""
        if self.text is None:
            return assumed_profile(ROWS, constants, NOT_GIVEN)
        query = read_pattern(self.text)
        if self.sample is not None:
            return self._measured(query, read_sample(self.sample, self.rows), self.sample, demand)
        if self.columns is not None:
            return self._measured(query, self._made_up(query, self.columns, demand), "made-up rows", demand)
        return assumed_profile(query.language, constants, NOT_MEASURED)

    def _measured(self, query: SizedQuery, table: pa.Table, origin: str, demand: Demand) -> QueryProfile:
        if table.num_rows < LEAST_ROWS:
            raise EpisodeAnalysisError(
                f"{origin} has {table.num_rows:,} rows: too few to measure a query on.",
                hint=f"Give at least {LEAST_ROWS:,} rows; some hundred thousand are better.",
            )
        bound = bound_to(query, table, self.given, self.arguments)
        return measured(bound, query.language, f"measured on {table.num_rows:,} rows ({origin})", demand.window)

    def _made_up(self, query: SizedQuery, columns: str, demand: Demand) -> pa.Table:
        """Rows for the query; which of the columns are keys, planning over none of them says."""
        schema = read_columns(columns)
        spec = bound_to(query, schema.empty_table(), self.given, self.arguments).spec
        # a sample has fewer keys than there will be, each with as many events in a second
        keys = max(1.0, min(demand.keys, self.rows / 100))
        rate = max(1.0, demand.rate * keys / demand.keys)
        return made_up(schema, self.text or "", spec.input_order.keys, rate, keys, self.rows)
