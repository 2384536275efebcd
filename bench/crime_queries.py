"""The 19 row pattern templates over city crimes of Zhu, Huang and Chaudhuri, "High-Performance Row Pattern Recognition
Using Joins" (PVLDB 16(5), 2023), written anew.

From the paper's abstract and the templates that its authors published: six patterns; three definitions of nearness for
all six (a box of ±0.025° around the first crime, one fixed district, PARTITION BY beat) and a fourth (one fixed beat)
for the plain sequence; rows in order of time, then of id; all within 30 minutes of the first crime; one row per match
with the ids; SKIP TO NEXT ROW; a gap (`Z` here, `G` in some of theirs) takes any row within the 30 minutes. District 14
and beat 2232 are also theirs.

Chosen here: the types of crimes (the paper has 1,800 queries; here is one for each template). ROBBERY, BATTERY, MOTOR
VEHICLE THEFT for the sequence is the usual example; the others are frequent types, so that most templates have matches.
Also: names of types and timestamps (theirs: numbers), BETWEEN for the box, and the 30 minutes on every symbol but the
first.
"""

from __future__ import annotations

from dataclasses import dataclass

DEGREES = 0.025
DISTRICT, BEAT = 14, 2232
GAP = "Z"


@dataclass(frozen=True)
class Shape:
    """A pattern. types: the crime of each label. first: labels of the first row."""

    name: str
    pattern: str
    types: dict[str, str]
    first: tuple[str, ...] = ("A",)

    @property
    def anchor(self) -> str:
        """The name of the first row: its label, or the union of the labels that it may have."""
        return self.first[0] if len(self.first) == 1 else "U"


@dataclass(frozen=True)
class Template:
    shape: Shape
    place: str

    @property
    def name(self) -> str:
        return f"{self.shape.name}, {self.place}"

    @property
    def measures(self) -> list[str]:
        return [f"{label.lower()}_id" for label in self.shape.types]

    @property
    def clause(self) -> str:
        labels = self.shape.types
        conditions = {label: self._condition(label) for label in labels}
        if GAP in self.shape.pattern:
            conditions[GAP] = self._in_time()
        lines = [
            *(["PARTITION BY beat"] if self.place == SAME_BEAT else []),
            "ORDER BY datetime, id",
            "MEASURES " + ", ".join(f"{label}.id AS {name}" for label, name in zip(labels, self.measures, strict=True)),
            "ONE ROW PER MATCH",
            "AFTER MATCH SKIP TO NEXT ROW",
            f"PATTERN ({self.shape.pattern})",
            *([f"SUBSET U = ({', '.join(self.shape.first)})"] if self.shape.anchor == "U" else []),
            "DEFINE",
            ",\n".join(f"  {label} AS {condition}" for label, condition in conditions.items()),
        ]
        return "\n".join(lines)

    @property
    def query(self) -> str:
        return f"SELECT {', '.join(self.measures)} FROM crimes MATCH_RECOGNIZE (\n{self.clause}\n)"

    def _condition(self, label: str) -> str:
        parts = [f"primary_type = '{self.shape.types[label]}'"]
        if self.place == FIXED_DISTRICT:
            parts.append(f"district = {DISTRICT}")
        if self.place == FIXED_BEAT:
            parts.append(f"beat = {BEAT}")
        if label not in self.shape.first:
            if self.place == BOX:
                parts += [self._near("latitude"), self._near("longitude")]
            parts.append(self._in_time())
        return " AND ".join(parts)

    def _near(self, column: str) -> str:
        return f"{column} - {self.shape.anchor}.{column} BETWEEN -{DEGREES} AND {DEGREES}"

    def _in_time(self) -> str:
        return f"datetime <= {self.shape.anchor}.datetime + INTERVAL '30' MINUTE"


BOX, FIXED_DISTRICT, SAME_BEAT, FIXED_BEAT = "box", f"district {DISTRICT}", "by beat", f"beat {BEAT}"
SEQUENCE = Shape("sequence with gaps", "A Z* B Z* C", {"A": "ROBBERY", "B": "BATTERY", "C": "MOTOR VEHICLE THEFT"})
SHAPES = (
    SEQUENCE,
    Shape(
        "adjacent sequence",
        "A B C D E F G",
        {
            "A": "THEFT",
            "B": "BATTERY",
            "C": "THEFT",
            "D": "CRIMINAL DAMAGE",
            "E": "BATTERY",
            "F": "THEFT",
            "G": "BATTERY",
        },
    ),
    Shape(
        "closures",
        "A B+ C D+ E F+",
        {
            "A": "THEFT",
            "B": "BATTERY",
            "C": "CRIMINAL DAMAGE",
            "D": "THEFT",
            "E": "BATTERY",
            "F": "CRIMINAL DAMAGE",
        },
    ),
    Shape(
        "alternation",
        "(A | B) (C | D)",
        {"A": "ASSAULT", "B": "ROBBERY", "C": "THEFT", "D": "BATTERY"},
        first=("A", "B"),
    ),
    Shape(
        "alternation of closures with gaps",
        "A Z* (B+ | C+) Z* D",
        {"A": "BURGLARY", "B": "CRIMINAL DAMAGE", "C": "ASSAULT", "D": "THEFT"},
    ),
    Shape(
        "nested closures",
        "A (B+ C)+ D",
        {"A": "CRIMINAL DAMAGE", "B": "THEFT", "C": "BATTERY", "D": "CRIMINAL DAMAGE"},
    ),
)
TEMPLATES = (
    *(Template(shape, place) for place in (BOX, FIXED_DISTRICT, SAME_BEAT) for shape in SHAPES),
    Template(SEQUENCE, FIXED_BEAT),
)
