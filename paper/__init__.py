"""The paper's tables and figures: plans, and one engine that makes them. In the repository only, not installed."""

from paper.engine import reproduce
from paper.figures import draw_figures
from paper.networks import Stopped, Work
from paper.results_page import Results, results_page, section
from paper.tables import TABLES

__all__ = ["TABLES", "Results", "Stopped", "Work", "draw_figures", "reproduce", "results_page", "section"]
