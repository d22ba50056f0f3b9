"""Statistics against definitions that are computed another way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from protoadapt.core.statistics import holm, p_value


def step_down(p_values: list[float], level: float) -> set[int]:
    """Holm's procedure as written: the smallest p-value is tested at level/m, the next at level/(m−1), …"""
    rejected: set[int] = set()
    while len(rejected) < len(p_values):
        left = [i for i in range(len(p_values)) if i not in rejected]
        smallest = min(left, key=lambda i: p_values[i])
        if p_values[smallest] * len(left) > level:
            break
        rejected.add(smallest)
    return rejected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.5))
def test_adjusted_p_values_reject_what_the_procedure_rejects(p_values, level):
    adjusted = holm(p_values)
    assert {i for i, p in enumerate(adjusted) if p <= level} == step_down(p_values, level)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted))


def test_p_values_are_those_of_the_normal_distribution():
    for mean, width in ((0.4, 0.5), (-2.0, 0.7), (0.0, 1.0)):
        assert p_value(mean, width) == pytest.approx(2 * stats.norm.sf(abs(mean) / (width / 1.96)))
    assert (p_value(0.0, 0.0), p_value(1.0, 0.0)) == (1.0, 0.0)
