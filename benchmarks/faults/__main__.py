"""The campaign as a command; see the package."""

import argparse
import json
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
    parser.add_argument(
        "--out", type=Path, help="write the summary here, beside the parts that it has of the same commit and seed"
    )
    chosen = parser.parse_args()
    place = chosen.place or Path(tempfile.gettempdir(), f"protoadapt-faults-{chosen.seed}")
    if chosen.case is not None:
        how, finding = run_case(chosen.part[0], chosen.seed, chosen.case, World(place))
        sys.exit(finding or print(how))
    begin = time.monotonic()
    counts = run(chosen.seed, place, chosen.share, chosen.part or PARTS)
    found = {part: count["findings"] for part, count in counts.parts.items()}
    if chosen.out:
        about = {"schema": "protoadapt-faults/1", "seed": chosen.seed, "commit": commit()}
        before = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
        same = before if all(before.get(key) == value for key, value in about.items()) else {}
        about["seconds"] = same.get("seconds", 0) + round(time.monotonic() - begin)
        about |= {"versions": versions(), "hardware": hardware("cpu")}
        parts = same.get("parts", {}) | counts.parts
        write_json(chosen.out, about | {"parts": {part: parts[part] for part in PARTS if part in parts}})
    for part, count in counts.parts.items():
        print(f"{part}: {count['done']:,} cases, {len(found[part])} findings, {count['how']}")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
