"""The paper's tables and figures: plans, and one engine that makes them. In the repository only, not installed."""
