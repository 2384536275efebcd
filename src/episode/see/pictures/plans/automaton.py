"""The automaton of an event pattern as states in a row: straight on to the next, in an arc to others, in a loop to
itself."""

from __future__ import annotations

from episode.plan.events.automaton import AutomatonPlan
from episode.see.pictures.plans.drawing import CODE_SIZE, SMALL_SIZE, Drawing, width_of

RADIUS, LEAST = 17.0, 44.0
ARC_STEP = 26.0
MOST_STATES = 40


def drawn_automaton(automaton: AutomatonPlan) -> Drawing:
    """States from the left to the right by their numbers; of many, the first."""
    states = min(automaton.states, MOST_STATES)
    labels = _labels(automaton, states)
    loops = any(source == target for source, target in labels)
    above = max([target - source for source, target in labels if target > source + 1], default=0)
    below = max([source - target for source, target in labels if target < source], default=0)
    y = RADIUS + 6.0 + (44.0 if loops else 0.0) + ARC_STEP * above
    middles = _middles(labels, states)
    drawing = Drawing(middles[-1] + RADIUS + 8.0, y + RADIUS + 22.0 + ARC_STEP * below)
    for (source, target), (takes, absent) in labels.items():
        begin = len(drawing.parts)
        _transition(drawing, middles, y, source, target, takes, absent)
        drawing.group("transition", f"from state {source} to {target}: {takes}; {absent}".rstrip("; "), begin)
    for state, x in enumerate(middles):
        _state(drawing, automaton, state, x, y)
    if automaton.states > states:
        drawing.text(drawing.width, y, f"… {automaton.states - states} more states", "small")
        drawing.width += 120.0
    return drawing


def _labels(automaton: AutomatonPlan, states: int) -> dict[tuple[int, int], tuple[str, str]]:
    """By (source, target): the variables that are taken, and what must not lie before them."""
    found: dict[tuple[int, int], tuple[list[str], list[str]]] = {}
    for one in automaton.transitions:
        if one.source < states and one.target < states:
            takes, absent = found.setdefault((one.source, one.target), ([], []))
            takes.append(one.variable + (" if …" if one.checks else ""))
            absent += [f"no {', '.join(automaton.negations[number].variables)}" for number, _ in one.crosses]
    return {pair: (" | ".join(takes), "; ".join(dict.fromkeys(absent))) for pair, (takes, absent) in found.items()}


def _middles(labels: dict[tuple[int, int], tuple[str, str]], states: int) -> list[float]:
    middles, x = [], RADIUS + 12.0
    for state in range(states):
        middles.append(x)
        takes, absent = labels.get((state, state + 1), ("", ""))
        own, _ = labels.get((state, state), ("", ""))
        room = max(
            width_of(takes, CODE_SIZE, code=True) + 26.0,
            width_of(absent, SMALL_SIZE) + 20.0,
            LEAST,
            width_of(own, CODE_SIZE, code=True) - 30.0,
        )
        x += 2 * RADIUS + room
    return middles


def _transition(
    drawing: Drawing, middles: list[float], y: float, source: int, target: int, takes: str, absent: str
) -> None:
    begin, end = middles[source], middles[target]
    if source == target:
        drawing.path(f"M {begin - 9:.1f} {y - 14:.1f} C {begin - 22:.1f} {y - 48:.1f} {begin + 22:.1f} {y - 48:.1f} "
                     f"{begin + 9:.1f} {y - 14:.1f}")  # fmt: skip
        drawing.arrow(begin + 9.0, y - 14.0, "down")
        drawing.text(begin, y - 44.0, takes, "code", "middle")
        return
    if target == source + 1:
        drawing.line([(begin + RADIUS, y), (end - RADIUS, y)])
        drawing.arrow(end - RADIUS, y)
        middle = (begin + end) / 2
        drawing.text(middle, y - 6.0, takes, "code", "middle")
        drawing.text(middle, y + 14.0, absent, "small no", "middle")
        return
    up = -1.0 if target > source else 1.0
    peak = y + up * (RADIUS + ARC_STEP * abs(target - source))
    drawing.path(f"M {begin:.1f} {y + up * RADIUS:.1f} C {begin:.1f} {peak:.1f} {end:.1f} {peak:.1f} {end:.1f} "
                 f"{y + up * RADIUS:.1f}")  # fmt: skip
    drawing.arrow(end, y + up * RADIUS, "down" if up < 0 else "up")
    height = y + up * (RADIUS + 0.75 * ARC_STEP * abs(target - source)) + (-4.0 if up < 0 else 12.0)
    drawing.text((begin + end) / 2, height, f"{takes}{' · ' + absent if absent else ''}", "code", "middle")


def _state(drawing: Drawing, automaton: AutomatonPlan, state: int, x: float, y: float) -> None:
    begin, accepting = len(drawing.parts), automaton.accepting[state]
    if state in automaton.starts:
        drawing.line([(x - RADIUS - 12.0, y), (x - RADIUS, y)], "preferred")
        drawing.arrow(x - RADIUS, y)
    kind = "accepting" if accepting else "node"
    drawing.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS:.1f}" class="{kind}"/>')
    if accepting:
        drawing.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS - 4:.1f}" class="accepting"/>')
        drawing.text(x, y + RADIUS + 14.0, "match", "small", "middle")
    elif state in automaton.starts:
        drawing.text(x, y + RADIUS + 14.0, "start", "small", "middle")
    drawing.text(x, y + 4.5, str(state), "name", "middle")
    marks = [word for word, is_so in (("start", state in automaton.starts), ("match", accepting)) if is_so]
    drawing.group("state", f"state {state}{' (' + ', '.join(marks) + ')' if marks else ''}", begin)
