"""The campaign as a command; see the package."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.faults.campaign import PARTS, run, run_case
from benchmarks.faults.world import World
from protoadapt.core.files import write_json
from protoadapt.core.provenance import commit, hardware, versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=PARTS, action="append", help="these parts only; repeatable")
    parser.add_argument("--case", type=int, help="one case again, in this process")
    parser.add_argument("--share", type=float, default=1.0, help="of each part's cases")
    parser.add_argument("--place", type=Path, help="folder for the files of the campaign; kept, so that it continues")
    parser.add_argument("--out", type=Path, help="write the summary here (of a full campaign: results/faults.json)")
    chosen = parser.parse_args()
    place = chosen.place or Path(tempfile.gettempdir(), f"protoadapt-faults-{chosen.seed}")
    if chosen.case is not None:
        how, finding = run_case(chosen.part[0], chosen.seed, chosen.case, World(place))
        sys.exit(finding or print(how))
    begin = time.monotonic()
    counts = run(chosen.seed, place, chosen.share, chosen.part or PARTS)
    found = {part: count["findings"] for part, count in counts.parts.items()}
    if chosen.out:
        about = {"seed": chosen.seed, "wall_seconds": round(time.monotonic() - begin), "commit": commit()}
        about |= {"versions": versions(), "hardware": hardware("cpu")}
        write_json(chosen.out, {"schema": "protoadapt-faults/1", **about, "parts": counts.parts})
    for part, count in counts.parts.items():
        print(f"{part}: {count['done']:,} cases, {len(found[part])} findings, {count['how']}")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
