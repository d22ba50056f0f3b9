"""`Protocol`: how episodes are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.untrusted import finite

MOST_EPISODES = 10**8
KIND_SETTINGS: dict[str, tuple[str, ...]] = {
    "balanced": (),
    "dirichlet": ("alpha",),
    "semi": ("unlabeled", "distractors", "labeled_fraction"),
    "present": ("present",),
    "one-class": (),
    "few": (),
    "open": ("foreign",),
}
"""Kinds of protocols, and the settings that only one kind uses."""


@dataclass(frozen=True)
class Protocol:
    """How episodes are drawn.

    Parameters
    ----------
    kind : {"balanced", "dirichlet", "semi", "present", "one-class", "few", "open"}
        "balanced": `query` queries per class. "dirichlet": way·query queries in all, class shares from
        Dirichlet(alpha) (Veilleux et al. 2021). "semi": balanced queries, and `unlabeled` rows per class from a part of
        the table that support and queries are never drawn from. "present": present·query queries in all, from the rows
        of `present` of the `way` classes (Martin et al. 2022). "one-class": `query` queries, all of one class. "few":
        `query` queries in all, from the rows of all classes. "open": balanced queries, and beside them rows of `way`
        further classes, which have no right answer (Liu et al. 2020).
    way : int, default 5
        Classes per episode.
    shot : int, default 1
        Labelled rows per class.
    query : int, default 15
        Queries per class ("dirichlet": in the mean; "present": per class that is present, in the mean; "one-class" and
        "few": in all).
    alpha : float, default 2.0
        "dirichlet" only: concentration of the class shares.
    unlabeled : int, default 0
        "semi" only, and needed there: unlabelled rows per class.
    distractors : int, default 0
        "semi" only: further classes among the unlabelled rows.
    labeled_fraction : float, default 0.6
        "semi" only: the part of each class that support and queries are drawn from.
    present : int, default 5
        "present" only: classes among the queries.
    foreign : float, default 0.3
        "open" only: the share of the queries that are of other classes.

    Examples
    --------
    >>> evaluate(features, labels, "cipa", Protocol("semi", shot=5, unlabeled=30))
    """

    kind: str = "balanced"
    way: int = 5
    shot: int = 1
    query: int = 15
    alpha: float = 2.0
    unlabeled: int = 0
    distractors: int = 0
    labeled_fraction: float = 0.6
    present: int = 5
    foreign: float = 0.3

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KIND_SETTINGS:
            raise UserError(f"protocol {self.kind!r} is unknown: choose {', '.join(KIND_SETTINGS)}")
        for name, least in {"way": 2, "shot": 1, "query": 1, "unlabeled": 0, "distractors": 0, "present": 1}.items():
            whole_number(name, getattr(self, name), least)
            object.__setattr__(self, name, int(getattr(self, name)))  # numpy's integers are not JSON
        if not finite(self.alpha, 0, 1e6) or self.alpha == 0:
            raise UserError(f"alpha is {self.alpha}: it must be above 0 and at most 1,000,000")
        for name in ("labeled_fraction", "foreign"):
            if not finite(getattr(self, name), 0, 1) or getattr(self, name) in (0, 1):
                raise UserError(f"{name} is {getattr(self, name)}: it must lie between 0 and 1")
        if self.kind == "semi" and self.unlabeled < 1:
            raise UserError(
                "unlabeled is 0 but the semi protocol needs unlabelled rows: set --unlabeled to 1 or more per class, "
                "or evaluate without them by the balanced protocol"
            )
        if self.kind == "present" and self.present > self.way:
            raise UserError(
                f"present is {self.present} but an episode has {self.way} classes: raise --way or lower --present"
            )
        for name in ("alpha", "labeled_fraction", "foreign"):
            object.__setattr__(self, name, float(getattr(self, name)))
        for kind, names in KIND_SETTINGS.items():
            for name in names if kind != self.kind else ():
                if getattr(self, name) != DEFAULTS[name]:
                    raise UserError(
                        f"{name} is {getattr(self, name)} but the {self.kind} protocol does not use it: choose the "
                        f"{kind} protocol, or leave {name} out"
                    )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Protocol":
        """The protocol of a result record, without settings that its kind does not use (old records state some)."""
        unused = [name for kind, names in KIND_SETTINGS.items() for name in names if kind != record.get("kind")]
        return cls(**{name: value for name, value in record.items() if name not in unused})

    @property
    def others(self) -> int:
        """Classes of an episode that have no support: distractors, or those of foreign queries."""
        return {"semi": self.distractors, "open": self.way}.get(self.kind, 0)

    @property
    def classes(self) -> int:
        """Classes per episode, those without support included."""
        return self.way + self.others

    @property
    def candidates(self) -> int:
        """Classes of an episode that its queries may be of."""
        return {"present": self.present, "one-class": 1}.get(self.kind, self.way)

    @property
    def queries(self) -> int:
        """Queries per episode that have a right answer."""
        return self.query if self.kind == "few" else self.candidates * self.query

    @property
    def foreign_queries(self) -> int:
        """Queries per episode that have none: with "open" the stated share, but at least one per foreign class."""
        if self.kind != "open":
            return 0
        return max(self.way, round(self.queries * self.foreign / (1 - self.foreign)))


DEFAULTS = {field.name: field.default for field in fields(Protocol)}
