"""Your own method: a function from episodes to class probabilities, measured beside the others on the same episodes.

    python examples/04_add_a_method.py

On the command line: protoadapt compare FILE --methods protonet,my_module:drawn,cipa
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from protoadapt import Episodes, Protocol, compare


def drawn(episodes: Episodes, *, tau: float = 10.0) -> Tensor:
    """Nearest class mean by cosine, after each mean has taken in the queries that lie near it.

    Rows are centred and of unit length first, without which most networks' features lose many points.
    E episodes of W classes with S labelled rows and Q queries: takes (E, S, D) and (E, Q, D), returns (E, Q, W).
    """
    centre = episodes.query.mean(1, keepdim=True)
    support, query = (normalize(rows - centre, dim=-1) for rows in (episodes.support, episodes.query))
    sums = episodes.membership.mT @ support
    near = (tau * query @ normalize(sums, dim=-1).mT).softmax(-1)
    return (tau * query @ normalize(sums + near.mT @ query, dim=-1).mT).softmax(-1)


# Made-up rows of 20 classes, or yours: protoadapt.load_features("features.safetensors")
torch.manual_seed(0)
labels = torch.arange(20).repeat_interleave(120)
features = (0.3 + 0.6 * torch.randn(20, 64)[labels] + 1.1 * torch.randn(len(labels), 64)).clamp_min(0)
results = compare(features, labels, ["protonet", drawn, "cipa"], Protocol(shot=1), episodes=2000)
for result in results:
    difference = "" if result is results[0] else "   minus protonet {:+.2f} ± {:.2f}".format(*result.minus(results[0]))
    print(f"{result.method.label:10} {result.accuracy:.2f} ± {result.ci95:.2f} %{difference}")
