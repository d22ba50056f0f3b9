"""The paper's statements on its semi-supervised chart, each checked against the numbers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from protoadapt.core.results import paired_difference

Curve = Mapping[int, dict[str, Any]]
"""M, the number of unlabelled pictures per class → record. Support and queries are the same for all M."""

FLAT = 0.5
"""Points: a curve is saturated at the smallest M above which no larger M gains as much."""


class Trend(NamedTuple):
    paper: str
    holds: bool
    measured: str


def trends(curves: Mapping[str, Curve]) -> list[Trend]:
    """`curves` by name as in the chart: "Base + CIPA", "HCT_R + SemiPN (5 steps)", …, all over the same M."""
    base1, base5, base = (curves[f"Base + {method}"] for method in ("SemiPN (1 step)", "SemiPN (5 steps)", "CIPA"))
    ours1, ours5, ours = (curves[f"HCT_R + {method}"] for method in ("SemiPN (1 step)", "SemiPN (5 steps)", "CIPA"))
    sizes = sorted(ours)
    few, many = sizes[0], sizes[-1]
    peak = max(sizes, key=lambda m: base5[m]["accuracy"])
    fall = paired_difference(base5[many], base5[peak])
    ahead = [m for m in sizes if base5[m]["accuracy"] > base1[m]["accuracy"]]
    turn = next((m for m in sizes if ours5[m]["accuracy"] <= ours1[m]["accuracy"]), None)
    start, end = paired_difference(base[few], base1[few]), paired_difference(base[many], base1[many])
    lead = {m: ours[m]["accuracy"] - ours1[m]["accuracy"] for m in sizes}
    beaten = [
        m for m in sizes if any(c[m]["accuracy"] > ours[m]["accuracy"] for c in (base1, base5, base, ours1, ours5))
    ]
    pairs = ((base1, ours1), (base5, ours5), (base, ours))
    behind = sum(b[m]["accuracy"] > o[m]["accuracy"] for b, o in pairs for m in sizes)
    at1, at = saturation(ours1), saturation(ours)
    return [
        Trend("HCT_R + SemiPN saturates at M = 16", near(at1, 16), f"1 step saturates at M = {at1}"),
        Trend("HCT_R + CIPA saturates at M = 64", near(at, 64), f"it saturates at M = {at}"),
        Trend(
            "Base + SemiPN (5 steps) saturates at M = 4 and then falls",
            near(peak, 4) and fall[0] + fall[1] < 0,
            f"its peak is at M = {peak}; M = {many} is {fall[0]:+.2f} ± {fall[1]:.2f} from there",
        ),
        Trend(
            "with few pictures Base + SemiPN (5 steps) is ahead of 1 step",
            ahead[:2] == sizes[:2],
            f"it is ahead at {_listed(ahead)}",
        ),
        Trend(
            "with HCT_R, 5 steps stay ahead of 1 step until M = 64",
            turn is not None and near(turn, 64),
            f"they are behind from M = {turn} on" if turn else "they are ahead throughout",
        ),
        Trend(
            "Base + CIPA starts below Base + SemiPN (1 step) and passes it",
            start[0] + start[1] < 0 < end[0] - end[1],
            f"{start[0]:+.2f} ± {start[1]:.2f} at M = {few}, {end[0]:+.2f} ± {end[1]:.2f} at M = {many}",
        ),
        Trend(
            "HCT_R + CIPA is the best of all throughout",
            not beaten,
            f"it is beaten at {_listed(beaten)}" if beaten else "at every M",
        ),
        Trend(
            "its lead over HCT_R + SemiPN grows with M",
            lead[many] > lead[16] > lead[few] and lead[many] > 0,
            f"{lead[few]:+.2f} at M = {few}, {lead[16]:+.2f} at M = 16, {lead[many]:+.2f} at M = {many}",
        ),
        Trend(
            "HCT_R is ahead of the baseline with every method",
            not behind,
            f"in {3 * len(sizes) - behind} of {3 * len(sizes)} pairs",
        ),
    ]


def saturation(curve: Curve) -> int:
    sizes = sorted(curve)
    gains = {m: max((curve[n]["accuracy"] for n in sizes if n > m), default=0.0) - curve[m]["accuracy"] for m in sizes}
    return next(m for m in sizes if gains[m] < FLAT)


def near(measured: int, stated: int) -> bool:
    """Within a factor of two, the step of the chart."""
    return stated <= 2 * measured and measured <= 2 * stated


def _listed(sizes: list[int]) -> str:
    return "M = " + ", ".join(map(str, sizes)) if sizes else "no M"
