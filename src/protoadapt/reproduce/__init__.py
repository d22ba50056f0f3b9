"""The paper's tables and figures, each a plan; one engine that does them and goes on where it stopped."""

from protoadapt.reproduce.engine import reproduce
from protoadapt.reproduce.figures import draw_figures
from protoadapt.reproduce.networks import Stopped, Work
from protoadapt.reproduce.page import Results, results_page, section
from protoadapt.reproduce.tables import TABLES

__all__ = ["TABLES", "Results", "Stopped", "Work", "draw_figures", "reproduce", "results_page", "section"]
