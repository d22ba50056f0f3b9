"""`Protocol`: how episodes are drawn."""

from dataclasses import dataclass, field, fields
from typing import Any

from protoadapt.core.errors import UserError, finite, whole_number

MOST_EPISODES = 10**8
NEED_BASE_MEAN = ("simpleshot", "bd_cspn", "laplacian_shot", "bavardage")
"""Methods that centre by the mean of the base classes' features. Here, as the help names them without loading torch."""
PROTOCOL_KINDS = ("balanced", "dirichlet", "semi", "present", "one-class", "few", "open")


def _setting(default: float, kind: str = "", least: int | None = None, below: float | None = None) -> Any:
    """A setting that one `kind` of protocol uses, or all: a whole number from `least`, or one between 0 and `below`."""
    return field(default=default, metadata={"kind": kind, "least": least, "below": below})


@dataclass(frozen=True)
class Protocol:
    """How episodes are drawn.

    Parameters
    ----------
    kind : {"balanced", "dirichlet", "semi", "present", "one-class", "few", "open"}
        "balanced": `query` queries per class. "dirichlet": way·query queries in all, class shares from
        Dirichlet(alpha) (Veilleux et al. 2021), drawn again where a class has too few rows. "semi": balanced queries,
        and `unlabeled` rows per class from a part of the table that support and queries are never drawn from.
        "present": present·query queries in all, from the rows of `present` of the `way` classes (Martin et al. 2022).
        "one-class": `query` queries, all of one class. "few": `query` queries in all, from the rows of all classes.
        "open": balanced queries, and beside them rows of `way` further classes, which have no right answer (Liu et al.
        2020).
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
    way: int = _setting(5, least=2)
    shot: int = _setting(1, least=1)
    query: int = _setting(15, least=1)
    alpha: float = _setting(2.0, "dirichlet", below=1e6)
    unlabeled: int = _setting(0, "semi", least=0)
    distractors: int = _setting(0, "semi", least=0)
    labeled_fraction: float = _setting(0.6, "semi", below=1)
    present: int = _setting(5, "present", least=1)
    foreign: float = _setting(0.3, "open", below=1)

    def __post_init__(self) -> None:
        if self.kind not in PROTOCOL_KINDS:
            raise UserError(f"protocol {self.kind!r} is unknown: choose {', '.join(PROTOCOL_KINDS)}")
        for each in fields(self)[1:]:
            name, value = each.name, getattr(self, each.name)
            kind, least, below = each.metadata.values()
            if least is not None:
                whole_number(name, value, least)
            elif not finite(value, 0, below) or value in (0, below):
                raise UserError(f"{name} is {value}: it must lie between 0 and {below:,.0f}")
            # numpy's numbers are not JSON
            object.__setattr__(self, name, float(value) if least is None else int(value))
            if kind not in ("", self.kind) and value != each.default:
                raise UserError(
                    f"{name} is {value} but the {self.kind} protocol does not use it: choose the {kind} protocol, or "
                    f"leave {name} out"
                )
        if self.kind == "semi" and self.unlabeled < 1:
            raise UserError("unlabeled is 0 but the semi protocol needs unlabelled rows: set --unlabeled to 1 or more")
        if self.kind == "present" and self.present > self.way:
            raise UserError(
                f"present is {self.present} but an episode has {self.way} classes: raise --way or lower --present"
            )

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

    @property
    def foreign_rows(self) -> int:
        """Rows of each foreign class that these are drawn from."""
        return -(-self.foreign_queries // self.way)
