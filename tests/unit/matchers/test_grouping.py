"""Grouping and ordering against NumPy's stable sorts, and dense codes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from episode.matchers import grouping
from episode.matchers.columns import value_range
from episode.matchers.keys import encode_range
from tests.unit.native.runs import run_all_ways

INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-3, 3)


def codes_and_images(draw_value=INT64):
    return st.tuples(st.integers(0, 200), st.integers(1, 5), st.integers(0, 3)).flatmap(
        lambda shape: st.tuples(
            hnp.arrays(np.int32, shape[0], elements=st.integers(0, shape[1] - 1)),
            st.just(shape[1]),
            hnp.arrays(np.int64, (shape[2], shape[0]), elements=draw_value),
        )
    )


def expected_order(codes, images):
    """np.lexsort is stable and takes the most significant key last."""
    return np.lexsort([*images[::-1], codes])


def in_order(case):
    codes, n_keys, images = case
    found = grouping.order_rows(codes, n_keys, images)
    return np.arange(len(codes)) if found is None else found[0]


@settings(max_examples=200, deadline=None)
@given(st.one_of(codes_and_images(), codes_and_images(SMALL)))
def test_order_within_groups_equals_a_stable_lexicographic_sort(case):
    codes, n_keys, images = case
    order, starts = grouping.group(codes, n_keys)
    assert order.tolist() == np.argsort(codes, kind="stable").tolist()
    assert np.diff(starts).tolist() == np.bincount(codes, minlength=n_keys).tolist()
    assert in_order(case).tolist() == expected_order(codes, images).tolist()
    found = grouping.order_rows(codes, n_keys, images)
    if found is not None:
        assert found.starts.tolist() == starts.tolist()
        assert found.as_arrived == (found.order.tolist() == order.tolist())


@settings(max_examples=100, deadline=None)
@given(codes_and_images(SMALL))
def test_rows_in_order_are_left_as_they_are(case):
    codes, n_keys, images = case
    order = expected_order(codes, images)
    is_ordered = order.tolist() == list(range(len(codes)))
    assert (grouping.order_rows(codes, n_keys, images) is None) == is_ordered
    assert grouping.order_rows(codes[order], n_keys, np.ascontiguousarray(images[:, order])) is None


def test_long_segments_use_wide_digits_and_stay_stable():
    rng = np.random.default_rng(7)
    n = 200_000
    codes = (np.arange(n) % 2).astype(np.int32)
    images = np.stack([rng.integers(-50, 50, n), rng.integers(-(2**63), 2**63 - 1, n)])
    assert np.array_equal(in_order((codes, 2, images)), expected_order(codes, images))


def test_extremes_of_int64_are_ordered():
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    image = np.array([high, low, 0, -1, 1, low, high] * 20)
    order = in_order((np.zeros(len(image), np.int32), 1, image[np.newaxis, :]))
    assert np.array_equal(order, np.argsort(image, kind="stable"))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 50), st.integers(0, 2), st.booleans(), st.integers(0, 2**32 - 1))
def test_the_code_does_the_same_in_all_ways(n, columns, few, seed):
    rng = np.random.default_rng(seed)
    n_keys = 1 if few else 3
    codes = rng.integers(0, n_keys, n).astype(np.int32)
    images = rng.integers(-(2**63), 2**63 - 1, (columns, n)) >> rng.integers(0, 64)
    order = expected_order(codes, images)
    ordered, _ = run_all_ways(grouping.checking_program(columns), [codes, images.reshape(-1)])
    assert bool(ordered) == (order.tolist() == list(range(n)))
    starts = np.cumsum([0, *np.bincount(codes, minlength=n_keys)])
    zeros, room = np.zeros(n_keys + 1, np.int64), np.zeros(n_keys, np.int64)
    _, (_, found_starts, _, found) = run_all_ways(
        grouping.grouping_program(), [codes, zeros, room, np.zeros(n, np.int64)]
    )
    assert found.tolist() == np.argsort(codes, kind="stable").tolist()
    assert found_starts.tolist() == starts.tolist()
    scratch = [
        np.zeros(n_keys, np.uint8),
        np.zeros(2 * n, np.uint64),
        np.zeros(2 * n, np.int64),
        np.zeros(2049, np.int64),
    ]
    given_ = [codes, images.reshape(-1), zeros, room, np.zeros(n, np.int64), *scratch]
    _, (_, _, found_starts, _, found, *_) = run_all_ways(grouping.ordering_program(columns), given_)
    assert found.tolist() == order.tolist()
    assert found_starts.tolist() == starts.tolist()
    for width, type_ in grouping.WIDTHS.items():
        values = rng.integers(0, 2**7, n).astype(type_.dtype)
        spread_ = [codes, starts[:-1].copy(), values, np.zeros_like(values)]
        _, (*_, out) = run_all_ways(grouping.spreading_program(width), spread_)
        assert out.tolist() == values[np.argsort(codes, kind="stable")].tolist()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(INT64, st.integers(0, 3)), max_size=20))
def test_spans_of_groups(rows):
    times, groups = np.array([t for t, _ in rows], np.int64), np.array([g for _, g in rows], np.int32)
    least, greatest = -(2**63), 2**63 - 1
    first = [min((t for t, g in rows if g == group), default=greatest) for group in range(4)]
    last = [max((t for t, g in rows if g == group), default=least) for group in range(4)]
    assert [one.tolist() for one in grouping.spans_of(times, groups, 4)] == [first, last]
    given_ = [times, groups, np.full(4, greatest), np.full(4, least)]
    assert [one.tolist() for one in run_all_ways(grouping.spans_program(), given_)[1][2:]] == [first, last]


@settings(max_examples=100, deadline=None)
@given(hnp.arrays(np.int64, st.integers(1, 50), elements=st.integers(-20, 20)), st.data())
def test_encode_range_gives_dense_codes_in_order_of_value(values, data):
    valid = data.draw(st.one_of(st.just(np.empty(0, np.bool_)), hnp.arrays(np.bool_, len(values))))
    mask = valid if len(valid) else np.ones(len(values), np.bool_)
    smallest, largest = value_range(values, valid)
    assert (smallest, largest) == ((values[mask].min(), values[mask].max()) if mask.any() else (0, -1))
    codes, distinct = encode_range(values, valid, smallest, largest - smallest + 1)
    assert distinct.tolist() == sorted(set(values[mask].tolist()))
    assert (codes[~mask] == len(distinct)).all()
    assert distinct[codes[mask]].tolist() == values[mask].tolist()
