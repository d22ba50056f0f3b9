"""Rival methods that need fitting or slow optimisation, run as any user's own: `--method paper.rivals.unem:unem`."""
