"""A campaign against protoadapt: files changed at random, settings of any kind, processes that are killed or starved.

    python -m benchmarks.faults --out results/faults.json   the whole campaign, about 31,000 cases
    python -m benchmarks.faults --part files --case 17      one case again, with its traceback

A case is a *finding* if it ends in a traceback, takes more than 30 seconds or 4 GB, or if an answer is lost or changed.
Case i of a part depends on (seed, part, i) alone. An interrupted campaign continues where it was.

`damage` changes bytes; `reading` and `passed_on` hold the cases that read changed files, `choices` those that choose
settings, `processes` those that kill and starve commands, `page` those that do so to the server of the page and send it
requests of any content. `campaign` runs them in worker processes and counts. Parts may run side by side in two
campaigns with a `--place` of their own each and the same `--out`.
"""
