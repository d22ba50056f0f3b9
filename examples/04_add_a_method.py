"""Your own method: a function from episodes to class probabilities, measured beside the others on the same episodes.

    python examples/04_add_a_method.py

On the command line: protoadapt compare FILE --methods protonet,my_module:shrunk,cipa
"""

from torch import Tensor

from protoadapt import Episodes, Protocol, compare
from protoadapt.core.features import synthetic_features


def shrunk(episodes: Episodes, *, tau: float = 10.0, strength: float = 1.0) -> Tensor:
    """Nearest class mean, the means drawn towards the mean of all queries as if it were `strength` more examples.

    E episodes of W classes with S labelled rows and Q queries: takes (E, S, D) and (E, Q, D), returns (E, Q, W).
    """
    support, query = episodes.support, episodes.query
    sums, shots = episodes.membership.mT @ support, episodes.shots[..., None]
    means = (sums + strength * query.mean(1, keepdim=True)) / (shots + strength)
    return (tau * query @ means.mT / means.norm(dim=-1)[:, None]).softmax(-1)


table = synthetic_features()  # or protoadapt.load_features("features.safetensors")
results = compare(table.features, table.labels, ["protonet", shrunk, "cipa"], Protocol(shot=1), episodes=2000)
for result in results:
    difference = "" if result is results[0] else "   minus protonet {:+.2f} ± {:.2f}".format(*result.minus(results[0]))
    print(f"{result.method.label:10} {result.accuracy:.2f} ± {result.ci95:.2f} %{difference}")
