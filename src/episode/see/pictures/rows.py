"""A row pattern's matches over the series of a key: its line, the rows of the matches with their labels, brackets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from episode.lang.rows.syntax import MatchRecognize
from episode.see.inspecting import Inspected
from episode.see.pictures.axis import Series, chosen_column, columns_in, line_rows, series_of
from episode.see.pictures.choosing import Wish
from episode.see.pictures.labelled import LabelledMatch, Labelling
from episode.see.pictures.look import Look, Table
from episode.see.pictures.scene import MOST_POINTS, PictureScene, written_pattern
from episode.words import count_of


def look_at_rows(inspected: Inspected, wish: Wish, zone: str) -> Look:
    """The key and the match that are asked for, and what lies around them."""
    labelling = Labelling.of(inspected)
    column = _series_column(inspected, wish)
    scene = PictureScene.of(labelling, wish, zone, column)
    rows = scene.found.rows
    # without a column that can be drawn, a single lane with all rows
    series = Series("rows", np.zeros(len(rows)), ("rows",)) if column is None else series_of(rows.table, column)
    matches = labelling.label_matches(rows, scene.found.extents.place[scene.drawn])
    tables = {"line": scene.line(series), "rows": _row_table(scene, series, matches), "matches": scene.brackets()}
    return scene.look("rows", written_pattern(inspected), labelling.plan.labels.names, tables, series=series)


def _series_column(inspected: Inspected, wish: Wish) -> str | None:
    """The column that the conditions are about, or else the measures."""
    query: MatchRecognize = inspected.placed.query
    defined = columns_in(definition.condition for definition in query.definitions)
    measured = columns_in(measure.expression for measure in query.measures)
    plan = inspected.plan
    never = [*plan.keys, *(one.column for one in plan.order)]
    types = {name: type_ for name, type_ in plan.types.items() if name in inspected.source.columns}
    return chosen_column(types, wish.series, [*defined, *measured], never)


def _row_table(scene: PictureScene, series: Series, matches: Sequence[LabelledMatch]) -> Table:
    """The rows of the matches, each once: with its label in the chosen match, or in the first that has it."""
    marks, x, y = scene.marks, scene.found.x, series.y
    order = sorted(range(len(marks)), key=lambda at: (not marks[at].chosen, marks[at].number))
    if not order:
        return ()
    places = np.concatenate([matches[at].places for at in order])
    of_match = np.repeat(order, [len(matches[at].places) for at in order])
    labels = np.array([label for at in order for label in matches[at].labels])
    kept = np.unique(places, return_index=True)[1]
    kept = kept[scene.in_view(x[places[kept]]) & ~np.isnan(y[places[kept]])]
    if len(kept) > MOST_POINTS:
        names, codes = np.unique(labels[kept], return_inverse=True)
        few = [places[kept][codes == code] for code in range(len(names))]
        buckets = scene.wish.width // 8
        some = np.concatenate([one[line_rows(x[one], y[one], scene.view, buckets)] for one in few])
        scene.notes.append(f"{count_of(len(some), 'row')} of the {len(kept):,} in the matches are marked.")
        kept = kept[np.isin(places[kept], some)]
    return tuple(
        {
            **point,
            "label": str(labels[at]),
            "match": marks[of_match[at]].number,
            "chosen": marks[of_match[at]].chosen,
            "time": scene.axis.text(x[places[at]]),
        }
        for at, point in zip(kept, scene.points(series, places[kept]))
    )
