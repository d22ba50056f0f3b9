"""The highest rows of every dataset, beside the highest published ones. All of them are measured for other tables."""

from paper.choice_plans import CHOSEN
from paper.plan import Trial
from paper.stored_results import SHOTS, Results, accuracy
from paper.tables import CIFAR_FS_CHOSEN, CUB_BOX, CUB_CHOSEN, FC100_CHOSEN, MINI_CHOSEN, cross, many
from protoadapt.report.tables import markdown

ONE, WIDE, THREE = "one ResNet-12, 8.0 M", "one wide ResNet-12 after two cycles, 12.4 M", "narrow and two wide, 32.8 M"


RECORDS: tuple[tuple[str, str, Trial, str], ...] = (
    ("mini-ImageNet", ONE, MINI_CHOSEN, "cipa"),
    ("mini-ImageNet", ONE, many(MINI_CHOSEN), "pt_map"),
    ("mini-ImageNet", WIDE, many(MINI_CHOSEN, CHOSEN["wide"]), "pt_map"),
    ("mini-ImageNet", THREE, many(MINI_CHOSEN, CHOSEN["both_wide"]), "cipa"),
    ("mini-ImageNet", THREE, many(MINI_CHOSEN, CHOSEN["both_wide"]), "pt_map"),
    ("CIFAR-FS", ONE, CIFAR_FS_CHOSEN, "cipa"),
    ("CIFAR-FS", ONE, CIFAR_FS_CHOSEN, "pt_map"),
    ("FC100", ONE, FC100_CHOSEN, "cipa"),
    ("FC100", ONE, many(FC100_CHOSEN), "pt_map"),
    ("CUB, boxes", ONE, CUB_BOX, "cipa"),
    ("CUB, boxes", ONE, many(CUB_BOX), "pt_map"),
    ("CUB, whole pictures", ONE, CUB_CHOSEN, "cipa"),
    ("CUB, whole pictures", ONE, many(CUB_CHOSEN), "pt_map"),
    ("mini-ImageNet → CUB, boxes", ONE, many(cross(MINI_CHOSEN, "box")), "pt_map"),
)
"""What is tested, the networks and their parameters, the trial, the method."""

PUBLISHED = {
    "mini-ImageNet": ("84.04 / 89.14 (a)", "85.59 / 91.34"),
    "CIFAR-FS": ("87.16 / 90.47 (a), 5-shot 91.0 (b)", "89.94 / 92.83"),
    "FC100": ("54.68 / 66.86 (a)", ""),
    "CUB": ("93.03 / 94.97 (c)", "95.80 / 97.12"),
}
"""The highest published transductive accuracies we know of: with ResNet-12, and with any network of its training."""


def records_section(results: Results) -> list[str]:
    """Paragraphs of the results page."""
    lines = []
    for data, networks, trial, method in RECORDS:
        ours = [accuracy(results.get(trial, shot, method)) for shot in SHOTS]
        published = PUBLISHED.get(data.partition(",")[0], ("", ""))
        name = "PT+MAP †" if method == "pt_map" else "CIPA"
        lines.append([data, networks, str(trial.views), f"{trial.pooling:g}", name, *ours, *published])
    header = ["novel classes", "networks", "views", "pooling", "inference", "1-shot", "5-shot"]
    header += ["published, ResNet-12", "published, any"]
    about = (
        "The networks are those of the main rows and those that validation classes chose; tables with all methods, "
        "views and rules are below. † is given that classes are equally frequent, as nearly all published methods are; "
        "CIPA is not, but loses much where they are not. mini-ImageNet's pictures are files of 84 pixels here, CUB's "
        "are full-size."
    )
    sources = (
        "Published numbers are the highest that we know of, for whatever crop, views and file size their authors "
        "have. (a) EASY (Bendou et al. 2022): three ResNet-12, on mini-ImageNet wide ones and full-size files, on "
        "FC100 two or three. (b) ECKPN (Chen et al. 2021). (c) The highest at either shot: 1-shot is the paper's "
        "HCT_R with CIPA. The last column is of wide residual networks, mostly WRN-28-10."
    )
    return ["## The main rows and the highest, beside the highest published", about, markdown(header, lines), sources]
