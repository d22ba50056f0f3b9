"""A slice of the campaign of benchmarks/faults: other cases every day of the year.

Killed and starved processes take seconds each; those that matter most have tests of their own beside what they test.
"""

from datetime import date

import pytest

from benchmarks.faults.campaign import PARTS, Counts, run_case
from benchmarks.faults.world import World

SLICE = {"features": 150, "pictures": 100, "files": 60, "settings": 60, "requests": 25, "passed on": 60}
DAY = date.today().timetuple().tm_yday


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("part", SLICE)
def test_a_few_cases_of_today(world, part):
    found = {}
    for number in range(SLICE[part]):
        how, finding = run_case(part, DAY, number, world)
        assert how
        if finding:
            found[number] = finding
    assert not found, f"python -m benchmarks.faults --seed {DAY} --part {part} --case {min(found)}\n{found[min(found)]}"


def test_the_campaign_notices_faults(monkeypatch, world, tmp_path):
    """A case that raises, one that says too much, and one that is right."""

    def faulty(rng, world):
        return {0: lambda: 1 / 0, 1: lambda: "read"}[int(rng.integers(2))]()

    monkeypatch.setitem(PARTS, "features", (faulty, 10))
    ends = [run_case("features", 0, number, world) for number in range(20)]
    assert {how for how, _ in ends} == {"read", "found"}
    assert all(("ZeroDivisionError" in finding) == (how == "found") for how, finding in ends)
    counts = Counts(tmp_path / "counts.json", 0)
    for number, (how, finding) in enumerate(ends):
        counts.add("features", {"case": number, "how": how, "finding": finding, "gb": 0.1, "seconds": 0.0})
    counts.save()
    again = Counts(tmp_path / "counts.json", 0)
    numbers = again.again("features")
    assert numbers == [number for number, (how, _) in enumerate(ends) if how == "found"]
    assert again.parts["features"]["done"] == 20 - len(numbers)
