"""Plans of tables, as data: a row is a method on the features of a network. `engine` makes them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from protoadapt.core.protocol import Protocol

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """A network: NAME.safetensors beside NAME-train.json, and its results in results/NAME/."""

    name: str
    recipe: str
    settings: tuple[str, ...] = ()  # "key=value", in place of the recipe's
    teacher: "Run | None" = None  # trained before it; it learns from its answers, and may start from its weights
    start: "Run | None" = None  # trained before it; it starts from its weights and learns something else
    absent: str = ""  # reason why there is no result, where it is known
    parts: "tuple[Run, ...]" = ()  # networks whose unit features stand side by side; it has no weights of its own
    copy: str = ""  # name in `--data NAME=DIR` of the copy it is trained on; "": the dataset's files as published

    @property
    def cycles(self) -> "list[Run]":
        """The runs it came from, and itself."""
        earlier = [run for run in (*self.parts, self.teacher, self.start) if run]
        return unique([*(cycle for run in earlier for cycle in run.cycles), *([] if self.parts else [self])])


@dataclass(frozen=True)
class Trial:
    """Methods on the same episodes of novel (or validation) classes, embedded by one network.

    Its files are results/NAME/STEM-1shot.json and so on.
    """

    run: Run
    dataset: str
    crop: str = "none"
    views: int = 1
    pooling: float = 1.0  # exponent of the mean over all places
    stem: str = "novel"
    methods: tuple[str, ...] = ("cipa",)
    slow: tuple[str, ...] = ()  # methods that get only SLOW_EPISODES of the same episodes
    kind: str = "balanced"
    unlabeled: int = 0
    shots: tuple[int, ...] = (1, 5)
    episodes: int = 10_000
    split: str = "novel"  # or "val"
    copy: str = ""  # tested on a copy of the dataset's files, as `Run.copy`
    base: str = ""  # dataset of the base classes, where the network was trained on another

    @property
    def base_classes(self) -> "Trial":
        """The base classes' pictures, for methods that use their statistics."""
        other = replace(self, dataset=self.base, crop="none") if self.base else self
        return replace(other, split="base")

    @property
    def specs(self) -> tuple[str, ...]:
        """Every method."""
        return (*self.methods, *self.slow)

    def protocol(self, shot: int) -> Protocol:
        return Protocol(self.kind, shot=shot, unlabeled=self.unlabeled)

    def file(self, shot: int) -> str:
        return f"{self.run.name}/{self.stem}-{shot}shot.json"

    @property
    def files(self) -> list[str]:
        return [self.file(shot) for shot in self.shots]

    @property
    def features(self) -> str:
        other = "" if self.pooling == 1 else f"-pooling{self.pooling:g}"
        other += ("" if self.split == "novel" else f"-{self.split}") + (f"-{self.copy}" if self.copy else "")
        return f"{self.run.name}-{self.dataset}-{self.crop}-views{self.views}{other}.safetensors"


SLOW_EPISODES = 600
"""For methods that take a tenth of a second per episode. Episode i is the same however many are drawn."""


@dataclass(frozen=True)
class Task:
    """One episode with the path of CIPA's prototypes in the plane: results/NAME/adaptation.json."""

    run: Run
    dataset: str
    way: int = 10
    seed: int = 3  # of the episode
    plane_seed: int = 1  # of t-SNE

    @property
    def trial(self) -> Trial:
        """The features it is drawn from."""
        return Trial(self.run, self.dataset)

    @property
    def views(self) -> int:
        return self.trial.views

    @property
    def files(self) -> list[str]:
        return [f"{self.run.name}/adaptation.json"]


@dataclass(frozen=True)
class Row:
    """One line of a table: the paper's numbers, and the trial and method of ours."""

    words: tuple[str, ...]  # its first cells
    trial: Trial
    method: str = "cipa"
    paper: tuple[float | None, float | None] = (None, None)  # 1-shot, 5-shot


@dataclass(frozen=True)
class Difference:
    """One line of a table of differences: a trial's method minus another's, on the same episodes."""

    words: tuple[str, ...]  # what is subtracted, and where
    one: tuple[Trial, str]
    other: tuple[Trial, str]
    paper: tuple[float | None, float | None] = (None, None)  # the paper's difference at 1-shot, 5-shot


@dataclass(frozen=True)
class Table:
    title: str
    about: str
    columns: tuple[str, ...] = ()  # over the rows' words
    rows: tuple[Row, ...] = ()
    more: tuple[Trial, ...] = ()  # trials that no row shows
    tasks: tuple[Task, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def trials(self) -> list[Trial]:
        return unique([*(row.trial for row in self.rows), *self.more])

    @property
    def parts(self) -> list[Trial | Task]:
        return [*self.trials, *self.tasks]

    @property
    def files(self) -> list[str]:
        return [file for part in self.parts for file in part.files]

    def only(self, selects: Callable[[str], bool]) -> "Table":
        """The part of the table that has a selected file."""

        def asked(part: Trial | Task) -> bool:
            return any(map(selects, part.files))

        rows = tuple(row for row in self.rows if asked(row.trial))
        return replace(self, rows=rows, more=tuple(filter(asked, self.more)), tasks=tuple(filter(asked, self.tasks)))


def given(**settings: object) -> tuple[str, ...]:
    """Settings of a run: `given(epochs=30)` is ("epochs=30",)."""
    return tuple(f"{name}={value}" for name, value in settings.items())


def unique(things: Iterable[T]) -> list[T]:
    """Without repetition, in order."""
    return list(dict.fromkeys(things))
