"""Pattern programs, walked in plain Python: the ways through them, in order of preference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations

import pytest

from episode.errors import EpisodeUnsupportedError
from episode.lang.rows.parser import parse_clause
from episode.plan.rows.program import (
    ACCEPT,
    CHECK,
    ENTER,
    JUMP,
    MATCH,
    MAXIMUM_INSTRUCTIONS,
    SPLIT,
    PatternProgram,
    compile_pattern,
    is_nullable,
    length_bounds,
)


def program_of(pattern: str) -> PatternProgram:
    return compile_pattern(parse_clause(f"PATTERN ({pattern})"))


def ways(program: PatternProgram, longest: int) -> Iterator[str]:
    """Labels of every match of at most so many rows, most preferred first; anchors always hold."""

    def walk(at: int, labels: str, entered: dict[int, int]) -> Iterator[str]:
        instruction = program.instructions[at]
        operation = instruction.operation
        if operation == ACCEPT:
            yield labels
        elif operation == MATCH:
            if len(labels) < longest:
                yield from walk(at + 1, labels + instruction.label, entered)
        elif operation == SPLIT:
            yield from walk(instruction.first, labels, entered)
            yield from walk(instruction.second, labels, entered)
        elif operation == JUMP:
            yield from walk(instruction.first, labels, entered)
        elif operation == ENTER:
            yield from walk(at + 1, labels, {**entered, instruction.first: len(labels)})
        elif operation == CHECK and entered[instruction.first] == len(labels):
            yield from walk(instruction.second, labels, entered)
        else:
            yield from walk(at + 1, labels, entered)

    return walk(0, "", {})


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("A B", "AB"),
        ("A | B", "A B"),
        ("A (B | C) D", "ABD ACD"),
        ("A? B", "AB B"),
        ("A?? B", "B AB"),
        ("A*", "AAAA AAA AA A -"),
        ("A*?", "- A AA AAA AAAA"),
        ("A+", "AAAA AAA AA A"),
        ("A+? B", "AB AAB AAAB"),
        ("A{2}", "AA"),
        ("A{2}?", "AA"),
        ("A{1,3}", "AAA AA A"),
        ("A{1,3}?", "A AA AAA"),
        ("A{,2}", "AA A -"),
        ("A{2,}", "AAAA AAA AA"),
        ("A{2,}?", "AA AAA AAAA"),
        ("(A | B){2}", "AA AB BA BB"),
        ("(A B?){1,2}", "ABAB ABA AB AAB AA A"),
        ("PERMUTE(A, B)", "AB BA"),
        ("PERMUTE(A, B, C)", "ABC ACB BAC BCA CAB CBA"),
        ("PERMUTE(A?, B)", "AB B BA B"),
        ("PERMUTE(A?, B, C)", "ABC BC ACB CB BAC BC BCA BC CAB CB CBA CB"),
        ("PERMUTE(A | B, C, D)", "ACD BCD ADC BDC CAD CBD CDA CDB DAC DBC DCA DCB"),
        ("PERMUTE(A{2}, B, C)", "AABC AACB BAAC BCAA CAAB CBAA"),
        ("()", "-"),
        ("() | A", "- A"),
        ("(() | A)*", "- A AA AAA AAAA"),
        ("(A?)*", "AAAA AAA AA A -"),
        ("(){5,}", "-"),
        ("()+ A", "A"),
        ("(A?){2,}", "AAAA AAA AA A -"),
        ("(A*)*", "AAAA AAA AA A -"),
        ("(A | ())*", "AAAA AAA AA A -"),
        ("^ A $", "A"),
        ("{- A -} B", "AB"),
    ],
)
def test_ways_in_order_of_preference(pattern: str, expected: str) -> None:
    found = dict.fromkeys(way or "-" for way in islice(ways(program_of(pattern), 4), 500))
    assert list(found) == list(dict.fromkeys(expected.split()))


def test_permute_is_lexicographic_by_place() -> None:
    expected = ["".join(order) for order in permutations("CADB")]
    assert list(ways(program_of("PERMUTE(C, A, D, B)"), 4)) == expected


def test_orders_share_beginnings_that_match_in_one_way_only() -> None:
    shared = [one.label for one in program_of("PERMUTE(A {- B -}, C{2}, D)").instructions if one.operation == MATCH]
    assert "".join(shared) == "ABCCDDCC CCABDDAB DABCCCCAB".replace(" ", "")
    written_out = [one.label for one in program_of("PERMUTE(A?, C, D)").instructions if one.operation == MATCH]
    assert "".join(written_out) == "ACDADC CADDA DACCA".replace(" ", "")


def test_instructions_know_the_labels_they_were_made_of() -> None:
    text = "PATTERN (PERMUTE(A?, B A{2}, C | A))"
    made = [one for one in compile_pattern(parse_clause(text)).instructions if one.operation == MATCH]
    assert {text[one.span.start : one.span.end] for one in made} == {"A", "B", "C"}
    assert len({one.span for one in made}) == 5
    assert all(text[one.span.start : one.span.end] == one.label for one in made)


@pytest.mark.parametrize(
    ("pattern", "bounds"),
    [
        ("A B", (2, 2)), ("A | B C", (1, 2)), ("A?", (0, 1)), ("A*", (0, None)), ("A{2,5}", (2, 5)),
        ("(A B){2,}", (4, None)),
        ("()", (0, 0)), ("(){5,}", (0, 0)), ("^*", (0, 0)), ("PERMUTE(A, B?, C+)", (2, None)),
        ("{- A -} (B | ())", (1, 2)),
    ],
)  # fmt: skip
def test_bounds(pattern: str, bounds: tuple[int, int | None]) -> None:
    tree = parse_clause(f"PATTERN ({pattern})").pattern
    assert length_bounds(tree) == bounds
    assert is_nullable(tree) == program_of(pattern).nullable == (bounds[0] == 0)


def test_hidden_rows() -> None:
    instructions = program_of("A {- B {- C -} (D | E)* -} F").instructions
    assert {i.label: i.excluded for i in instructions if i.operation == MATCH} == {
        "A": False, "B": True, "C": True, "D": True, "E": True, "F": False,
    }  # fmt: skip


def test_targets_are_filled_in() -> None:
    program = program_of("((A?){2,3} | PERMUTE(B*, C+?))* D??")
    for instruction in program.instructions:
        targets = {
            SPLIT: (instruction.first, instruction.second),
            JUMP: (instruction.first,),
            CHECK: (instruction.second,),
        }
        assert all(0 <= target < len(program.instructions) for target in targets.get(instruction.operation, ()))
    assert len(program.enclosing_loops) == len(program.instructions)


@pytest.mark.parametrize(
    "pattern", [f"A{{{MAXIMUM_INSTRUCTIONS}}}", "((A{999}){999}){999}", f"PERMUTE({', '.join('A' * 400)})"]
)
def test_programs_have_a_limit(pattern: str) -> None:
    with pytest.raises(EpisodeUnsupportedError, match="instructions"):
        program_of(pattern)
