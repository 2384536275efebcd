"""Grouping and ordering kernels against NumPy's stable sorts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from episode.kernels import partition

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


@settings(max_examples=200, deadline=None)
@given(st.one_of(codes_and_images(), codes_and_images(SMALL)))
def test_order_within_groups_equals_a_stable_lexicographic_sort(case):
    codes, n_keys, images = case
    order, starts, disordered = partition.group_and_check(codes, n_keys, images)
    assert order.tolist() == partition.group(codes, n_keys)[0].tolist() == np.argsort(codes, kind="stable").tolist()
    partition.order_within(order, starts, disordered, images)
    assert order.tolist() == expected_order(codes, images).tolist()
    assert np.diff(starts).tolist() == np.bincount(codes, minlength=n_keys).tolist()


@settings(max_examples=100, deadline=None)
@given(codes_and_images(SMALL))
def test_is_ordered_says_whether_sorting_would_change_anything(case):
    codes, _, images = case
    order = expected_order(codes, images)
    assert partition.is_ordered(codes, images) == (order.tolist() == list(range(len(codes))))
    assert partition.is_ordered(codes[order], np.ascontiguousarray(images[:, order]))


def test_long_segments_use_wide_digits_and_stay_stable():
    rng = np.random.default_rng(7)
    n = 200_000
    codes = (np.arange(n) % 2).astype(np.int32)
    images = np.stack([rng.integers(-50, 50, n), rng.integers(-(2**63), 2**63 - 1, n)])
    order, starts, disordered = partition.group_and_check(codes, 2, images)
    partition.order_within(order, starts, disordered, images)
    assert np.array_equal(order, expected_order(codes, images))


def test_extremes_of_int64_are_ordered():
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    image = np.array([high, low, 0, -1, 1, low, high] * 20)
    order, starts, disordered = partition.group_and_check(np.zeros(len(image), np.int32), 1, image[np.newaxis, :])
    partition.order_within(order, starts, disordered, image[np.newaxis, :])
    assert np.array_equal(order, np.argsort(image, kind="stable"))


def test_only_keys_out_of_order_are_marked():
    codes, images = np.array([1, 0, 1, 0, 2], np.int32), np.array([[1, 1, 2, 0, 5]])
    order, starts, disordered = partition.group_and_check(codes, 3, images)
    assert disordered.tolist() == [True, False, False]
    partition.order_within(order, starts, disordered, images)
    assert order.tolist() == [3, 1, 0, 2, 4]


@settings(max_examples=100, deadline=None)
@given(hnp.arrays(np.int64, st.integers(1, 50), elements=st.integers(-20, 20)), st.data())
def test_encode_range_gives_dense_codes_in_order_of_value(values, data):
    valid = data.draw(st.one_of(st.just(np.empty(0, np.bool_)), hnp.arrays(np.bool_, len(values))))
    mask = valid if len(valid) else np.ones(len(values), np.bool_)
    smallest, largest, nulls = partition.small_range(values, valid)
    assert nulls == np.count_nonzero(~mask)
    codes, distinct = partition.encode_range(values, valid, smallest, largest - smallest + 1)
    assert distinct.tolist() == sorted(set(values[mask].tolist()))
    assert (codes[~mask] == len(distinct)).all()
    assert distinct[codes[mask]].tolist() == values[mask].tolist()
