"""The highest rows of every dataset, beside the highest published ones. All of them are measured for other tables."""

from paper.main_plans import CHOSEN, MANY_VIEWS, ONE_VIEW, THREE, WIDE_SECOND_EPNET, many_views, with_views
from paper.stored_results import SHOTS, Results, accuracy
from protoadapt.report.tables import markdown

ONE = "one ResNet-12, 8.0 M"
OF_SHIPPED = (
    ("mini-ImageNet", ONE_VIEW, "cipa"),
    ("mini-ImageNet", MANY_VIEWS, "pt_map"),
    ("CIFAR-FS", ONE_VIEW, "cipa"),
    ("CIFAR-FS", ONE_VIEW, "pt_map"),
    ("FC100", ONE_VIEW, "cipa"),
    ("FC100", MANY_VIEWS, "pt_map"),
    ("CUB, boxes", ONE_VIEW, "cipa"),
    ("CUB, boxes", MANY_VIEWS, "pt_map"),
    ("CUB, whole pictures", ONE_VIEW, "cipa"),
    ("CUB, whole pictures", MANY_VIEWS, "pt_map"),
    ("mini-ImageNet → CUB, boxes", MANY_VIEWS, "pt_map"),
)
OF_LARGER_NETWORKS = (
    ("one wide ResNet-12 after two cycles, 12.4 M", WIDE_SECOND_EPNET, "pt_map"),
    ("narrow and two wide, 32.8 M", THREE, "cipa"),
    ("narrow and two wide, 32.8 M", THREE, "pt_map"),
)
PUBLISHED = {
    "mini-ImageNet": ("84.04 / 89.14 (a)", "85.59 / 91.34"),
    "CIFAR-FS": ("87.16 / 90.47 (a), 5-shot 91.0 (b)", "89.94 / 92.83"),
    "FC100": ("54.68 / 66.86 (a)", ""),
    "CUB": ("93.03 / 94.97 (c)", "95.80 / 97.12"),
}
"""The highest published transductive accuracies we know of: with ResNet-12, and with any network of its training."""


def records_section(results: Results) -> list[str]:
    """Paragraphs of the results page."""
    rows = [(data, ONE, with_views(CHOSEN[data][1], *views), method) for data, views, method in OF_SHIPPED]
    rows += [
        ("mini-ImageNet", networks, many_views(run, "mini-imagenet"), method)
        for networks, run, method in OF_LARGER_NETWORKS
    ]
    lines = []
    for data, networks, trial, method in rows:
        ours = [accuracy(results.get(trial, shot, method)) for shot in SHOTS]
        published = PUBLISHED.get(data.partition(",")[0], ("", ""))
        name = "PT+MAP †" if method == "pt_map" else "CIPA"
        lines.append([data, networks, str(trial.views), f"{trial.pooling:g}", name, *ours, *published])
    header = ["novel classes", "networks", "views", "pooling", "inference", "1-shot", "5-shot"]
    header += ["published, ResNet-12", "published, any"]
    about = (
        "The networks are those of the main rows and those that validation classes chose; tables with all methods and "
        "views are below. † is given that classes are equally frequent, as nearly all published methods are; "
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
