"""benchmarks/bapa_parts.py: every variant replaces what exists and changes answers, and tables show the JSON."""

import numpy as np
import pytest
import torch
from helpers.cases import clouds

from benchmarks import bapa_parts
from paper.parts_page import numbers
from protoadapt.core.features import synthetic_features
from protoadapt.core.methods import bapa, bapa_equations
from protoadapt.core.methods.bapa_equations import BapaSettings
from protoadapt.core.protocol import Protocol

VARIANTS = bapa_parts.PARTS | bapa_parts.CHANGED


def test_nothing_replaced_is_bapa():
    episodes, _ = clouds()
    torch.testing.assert_close(bapa_parts.variant({})(episodes), bapa(episodes))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_replaces_what_exists_and_leaves_nothing_behind(name):
    replaced = VARIANTS[name]
    assert all(hasattr(bapa_equations, one) or one in BapaSettings._fields for one in replaced)
    # several labels, unequal sizes, overlapping classes: every part has something to do
    episodes, _ = clouds(episodes=30, queries=25, shots=(4, 2, 3), spread=2.0, dim=8)
    plain = bapa(episodes)
    other = bapa_parts.variant(replaced)(episodes)
    assert (other - plain).abs().max() > 1e-4
    torch.testing.assert_close(other.sum(-1), torch.ones_like(other[..., 0]))
    torch.testing.assert_close(bapa(episodes), plain)
    torch.testing.assert_close(bapa_parts.variant({})(episodes), plain)


def test_the_tables_show_means_and_extremes():
    table = synthetic_features(classes=6, rows=40)
    rows = bapa_parts.measure(table, Protocol("dirichlet"), 12, 0, "cpu")
    assert list(rows) == ["BAPA", *VARIANTS]
    other = {name: [value + 1, *rest] for name, (value, *rest) in rows.items()}
    cells = [[{"protocol": "Dirichlet(2)", "shot": 1, "rows": one}] for one in (rows, other)]
    record = {"episodes": 12, "seed": 0, "parts": list(bapa_parts.PARTS), "changed": list(bapa_parts.CHANGED)}
    page = numbers(record | {"sets": {"one": {"cells": cells[0]}, "two": {"cells": cells[1]}}})
    for name in VARIANTS:
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
        low = rows[name][0]
        assert line == f"| {name} | {np.mean([low, low + 1]):+.1f} | {low:+.1f} … {low + 1:+.1f} |"
