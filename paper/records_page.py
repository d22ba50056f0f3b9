"""The highest rows of every dataset, beside the highest published ones. All of them are measured for other tables."""

from paper.main_plans import CHOSEN, MANY_VIEWS, ONE_VIEW, WIDE_TABLE, with_views
from paper.stored_results import SHOTS, Results, accuracy
from protoadapt.report.tables import markdown

ONE = "one ResNet-12, 8.0 M"
PUBLISHED = {
    "mini-ImageNet": ("84.04 / 89.14 (a)", "85.59 / 91.34"),
    "CIFAR-FS": ("87.16 / 90.47 (a), 5-shot 91.0 (b)", "89.94 / 92.83"),
    "FC100": ("54.68 / 66.86 (a)", ""),
    "CUB": ("93.03 / 94.97 (c)", "95.80 / 97.12"),
}
"""The highest published transductive accuracies we know of: with ResNet-12, and with any network of its training."""


def records_section(results: Results) -> list[str]:
    """Paragraphs of the results page."""
    rows = [
        (data, ONE, with_views(trial, *views), method)
        for data, (_, trial) in CHOSEN.items()
        for views, method in ((ONE_VIEW, "cipa"), (ONE_VIEW, "pt_map"), (MANY_VIEWS, "pt_map"))
    ]
    larger = [("mini-ImageNet", row.words[0], row.trial, row.method) for row in WIDE_TABLE.rows]
    rows += [row for row in larger if row[-1] != "protonet"]
    lines = []
    for data, networks, trial, method in rows:
        ours = [accuracy(results.get(trial, shot, method)) for shot in SHOTS]
        published = PUBLISHED.get(data.partition(",")[0], ("", ""))
        name = "PT+MAP †" if method == "pt_map" else "CIPA"
        lines.append([data, networks, str(trial.views), f"{trial.pooling:g}", name, *ours, *published])
    header = ["novel classes", "networks", "views", "pooling", "inference", "1-shot", "5-shot"]
    header += ["published, ResNet-12", "published, any"]
    about = (
        "The networks are those that validation classes chose: HCT_R on FC100 and CUB's boxes, elsewhere with more on "
        "top ([main rows](#hct_r-cipa-beside-the-paper-its-tables-1-to-4)). Tables with all methods and "
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
    return ["## The highest rows, beside the highest published", about, markdown(header, lines), sources]
