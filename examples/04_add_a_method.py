"""Your own method: a function from episodes to class probabilities, measured beside the others on the same episodes.

    python examples/04_add_a_method.py

On the command line: protoadapt compare FILE --methods protonet,my_module:shrunk,cipa
"""

import torch
from torch import Tensor

from protoadapt import Episodes, Protocol, compare


def shrunk(episodes: Episodes, *, tau: float = 10.0, strength: float = 1.0) -> Tensor:
    """Nearest class mean, the means drawn towards the mean of all queries as if it were `strength` more examples.

    E episodes of W classes with S labelled rows and Q queries: takes (E, S, D) and (E, Q, D), returns (E, Q, W).
    """
    support, query = episodes.support, episodes.query
    sums, shots = episodes.membership.mT @ support, episodes.shots[..., None]
    means = (sums + strength * query.mean(1, keepdim=True)) / (shots + strength)
    return (tau * query @ means.mT / means.norm(dim=-1)[:, None]).softmax(-1)


# Made-up rows of 20 classes, or yours: protoadapt.load_features("features.safetensors")
torch.manual_seed(0)
labels = torch.arange(20).repeat_interleave(120)
features = (0.3 + 0.6 * torch.randn(20, 64)[labels] + 1.1 * torch.randn(len(labels), 64)).clamp_min(0)
results = compare(features, labels, ["protonet", shrunk, "cipa"], Protocol(shot=1), episodes=2000)
for result in results:
    difference = "" if result is results[0] else "   minus protonet {:+.2f} ± {:.2f}".format(*result.minus(results[0]))
    print(f"{result.method.label:10} {result.accuracy:.2f} ± {result.ci95:.2f} %{difference}")
