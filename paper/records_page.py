"""The highest rows of every dataset, beside the highest published ones. All of them are measured for other tables."""

from dataclasses import replace

from paper.choice_plans import CHOSEN
from paper.plan import Run, Trial
from paper.stored_results import SHOTS, Results, accuracy
from paper.tables import (
    CIFAR_FS_CHOSEN,
    CUB_BOX,
    CUB_CHOSEN,
    FC100_CHOSEN,
    MINI_CHOSEN,
    POOLING,
    VIEWS,
    cross,
    with_views,
)
from protoadapt.report.tables import markdown

TOLD = "bapa(class_prior=equal)"
MANY = (VIEWS, POOLING)
ONE = "one ResNet-12, 8.0 M"


def _of(run: Run) -> Trial:
    return replace(MINI_CHOSEN, run=run)


RECORDS: tuple[tuple[str, str, Trial, tuple[int, float], str], ...] = (
    ("mini-ImageNet", ONE, MINI_CHOSEN, (1, 1.0), "cipa"),
    ("mini-ImageNet", ONE, MINI_CHOSEN, (1, 1.0), TOLD),
    ("mini-ImageNet", ONE, MINI_CHOSEN, MANY, "pt_map"),
    ("mini-ImageNet", "one wide ResNet-12, 12.4 M", _of(CHOSEN["wide_second"]), MANY, "pt_map"),
    ("mini-ImageNet", "narrow and two wide, 32.8 M", _of(CHOSEN["both_wide"]), MANY, "bapa"),
    ("mini-ImageNet", "narrow and two wide, 32.8 M", _of(CHOSEN["both_wide"]), MANY, "pt_map"),
    ("CIFAR-FS", ONE, CIFAR_FS_CHOSEN, (1, 1.0), "bapa"),
    ("CIFAR-FS", ONE, CIFAR_FS_CHOSEN, (1, 1.0), TOLD),
    ("FC100", ONE, FC100_CHOSEN, (1, 1.0), "cipa"),
    ("FC100", ONE, FC100_CHOSEN, (1, POOLING), "pt_map"),
    ("CUB, boxes", ONE, CUB_BOX, (1, 1.0), "cipa"),
    ("CUB, boxes", ONE, CUB_BOX, MANY, "pt_map"),
    ("CUB, whole pictures", ONE, CUB_CHOSEN, MANY, "pt_map"),
    ("mini-ImageNet → CUB, boxes", ONE, cross(MINI_CHOSEN, "box"), MANY, "pt_map"),
)
"""What is tested, the networks and their parameters, the trial, views and pooling, the method."""

PUBLISHED = {
    "mini-ImageNet": ("84.04 / 89.14, EASY: three wide ResNet-12, full-size files", "85.59 / 91.34"),
    "CIFAR-FS": ("87.16 / 90.47, EASY: three ResNet-12; 5-shot 91.0, ECKPN", "89.94 / 92.83"),
    "FC100": ("54.68 / 66.86, EASY: two or three ResNet-12", ""),
    "CUB": ("93.03 / 94.97", "95.80 / 97.12"),
}
"""The highest published transductive accuracies we know of: with ResNet-12, and with any network of its training."""


def records_section(results: Results) -> list[str]:
    """Paragraphs of the results page."""
    lines = []
    for data, networks, trial, (views, pooling), method in RECORDS:
        ours = [accuracy(results.get(with_views(trial, views, pooling), shot, method)) for shot in SHOTS]
        published = PUBLISHED.get(data.partition(",")[0], ("", ""))
        lines.append([data, networks, str(views), f"{pooling:g}", method, *ours, *published])
    header = ["novel classes", "networks", "views", "pooling", "inference", "1-shot", "5-shot"]
    header += ["published, ResNet-12", "published, any"]
    about = (
        "The networks are those of the main rows and those that validation classes chose; tables with all methods, "
        f"views and rules are below. `pt_map` and `{TOLD}` are told that classes are equal, as are nearly all "
        "published methods; `cipa` is not told, but loses much where they are not; `bapa` is not told. mini-ImageNet's "
        "pictures are files of 84 pixels here, CUB's are full-size. Published numbers are the highest that we know of "
        "(EASY: Bendou et al. 2022), for whatever crop, views and file size their authors have; those of the last "
        "column have wide residual networks, mostly WRN-28-10."
    )
    return ["## The highest rows, beside the highest published", about, markdown(header, lines)]
