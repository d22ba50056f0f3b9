"""Trained heads, slowly: one episode and one query at a time, float64, straight from each paper's equations.

Each function has the form ``head(weights, support (S,D), labels (S,), query (Q,D), n_way) -> (Q,W)`` with rows that sum
to 1; weights are the head's arrays by name. Of this package they import the slow methods only.
"""

import numpy as np
from scipy.optimize import minimize

from .common import class_means, one_hot, softmax, squared_distance, unit
from .embedding_propagation import embedding_propagation
from .inductive import matching_net


def matching(weights, support, labels, query, n_way):
    answer = matching_net(support, labels, query, n_way) + 1e-6
    return answer / answer.sum(1, keepdims=True)


def epnet(weights, support, labels, query, n_way):
    return embedding_propagation(support, labels, query, n_way)


def metaopt_ridge(weights, support, labels, query, n_way):
    """The dual of ridge regression, ½αᵀ(K + 50 I)α − 2 yᵀα per class, minimised; logits s·K_q α."""
    kernel = np.array([[a @ b for b in support] for a in support]) + 50 * np.eye(len(support))
    alpha = np.linalg.inv(kernel) @ (2 * one_hot(labels, n_way))
    scores = [[sum(alpha[i, c] * (q @ x) for i, x in enumerate(support)) for c in range(n_way)] for q in query]
    return softmax(weights["scale"] * np.array(scores))


def feat(weights, support, labels, query, n_way):
    """p′ = LayerNorm(p + W_o Σ_j softmax_j(q·k_j/√D) v_j + b_o), logits −‖q − p′‖²/64."""
    means = class_means(support, labels, n_way)
    adapted = []
    for p in means:
        scores = [(weights["q.weight"] @ p) @ (weights["k.weight"] @ other) / np.sqrt(len(p)) for other in means]
        attention = softmax(np.array([scores]))[0]
        seen = sum(a * (weights["v.weight"] @ other) for a, other in zip(attention, means))
        moved = p + weights["out.weight"] @ seen + weights["out.bias"]
        moved = (moved - moved.mean()) / np.sqrt(moved.var() + 1e-5)
        adapted.append(weights["norm.weight"] * moved + weights["norm.bias"])
    return softmax(-squared_distance(query, adapted) / 64)


def metaopt_svm(weights, support, labels, query, n_way):
    """The dual of Crammer and Singer's machine by a general solver; logits s·Σ_i α_im (q·x_i)."""
    kernel, y = support @ support.T, one_hot(labels, n_way)

    def cost(flat):
        alpha = flat.reshape(y.shape)
        value = 0.5 * np.sum(alpha * (kernel @ alpha)) + 0.5 * np.sum(alpha**2) - np.sum(y * alpha)
        return value, ((kernel + np.eye(len(y))) @ alpha - y).ravel()

    rows = {"type": "eq", "fun": lambda flat: flat.reshape(y.shape).sum(1)}
    bounds = [(None, limit) for limit in (0.1 * y).ravel()]
    options = {"ftol": 1e-14, "maxiter": 1000}
    found = minimize(cost, np.zeros(y.size), jac=True, bounds=bounds, constraints=rows, method="SLSQP", options=options)
    return softmax(weights["scale"] * (query @ support.T @ found.x.reshape(y.shape)))


def linear(weights, name, x):
    return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def conv3(maps, weight):
    """A 3×3 convolution with a border of zeros, (C, H, H) → (O, H, H), place by place."""
    side = maps.shape[-1]
    framed = np.pad(maps, ((0, 0), (1, 1), (1, 1)))
    out = np.zeros((len(weight), side, side))
    for i in range(side):
        for j in range(side):
            out[:, i, j] = [np.sum(kernel * framed[:, i : i + 3, j : j + 3]) for kernel in weight]
    return out


def norm(weights, name, x):
    """BatchNorm with its running statistics, of a vector or of maps."""
    parts = ("running_mean", "running_var", "weight", "bias")
    mean, var, scale, shift = (weights[f"{name}.{part}"].reshape(-1, *[1] * (x.ndim - 1)) for part in parts)
    return scale * (x - mean) / np.sqrt(var + 1e-5) + shift


def max_pool(maps, border=0):
    framed = np.pad(maps, ((0, 0), (border, border), (border, border)), constant_values=-np.inf)
    side = framed.shape[-1] // 2
    return np.array(
        [[[c[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max() for j in range(side)] for i in range(side)] for c in framed]
    )


def relation(weights, support, labels, query, n_way):
    """Each query beside each class: [prototype; query] through two blocks and two layers, sigmoid."""
    channels = len(weights["norm1.weight"])
    means, answer = class_means(support, labels, n_way), np.zeros((len(query), n_way))
    side = round((support.shape[1] / channels) ** 0.5)
    for q, row in enumerate(query):
        for c, mean in enumerate(means):
            h = np.concatenate([mean.reshape(channels, side, side), row.reshape(channels, side, side)])
            for number in ("1", "2"):
                weight = weights["first.weight" if number == "1" else "second.weight"]
                h = np.maximum(norm(weights, f"norm{number}", conv3(h, weight)), 0)
                h = max_pool(h) if h.shape[-1] > 1 else h
            h = np.maximum(linear(weights, "hidden", h.ravel()), 0)
            answer[q, c] = sigmoid(linear(weights, "out", h))[0]
    return softmax(answer)


def tpn(weights, support, labels, query, n_way):
    """σ per row, W pair by pair, the 20 nearest of either, labels by their series."""
    channels = weights["first.weight"].shape[1]
    x = np.concatenate([support, query])
    side, scaled = round((x.shape[1] / channels) ** 0.5), []
    for row in x:
        h = row.reshape(channels, side, side)
        for number, weight in (("1", "first.weight"), ("2", "second.weight")):
            h = max_pool(np.maximum(norm(weights, f"norm{number}", conv3(h, weights[weight])), 0), border=1)
        h = np.maximum(linear(weights, "hidden", h.ravel()), 0)
        scaled.append(row / (linear(weights, "out", h)))
    W = np.array([[np.exp(-0.5 * np.mean((a - b) ** 2)) for b in scaled] for a in scaled])
    near = [set(np.argsort(-row, kind="stable")[:20]) for row in W]
    n = len(x)
    W = np.array([[W[i, j] if j in near[i] or i in near[j] else 0.0 for j in range(n)] for i in range(n)])
    degree = W.sum(1)
    S = np.array([[W[i, j] / np.sqrt(degree[i] * degree[j]) for j in range(n)] for i in range(n)])
    known = np.concatenate([one_hot(labels, n_way), np.zeros((len(query), n_way))])
    F = known
    for _ in range(3000):
        F = 0.99 * S @ F + known
    return softmax(F[len(support) :])


LSTM = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def gates(inputs, h, c, W_i, W_h, b_i, b_h):
    """One step of an LSTM: input, forget, cell and output gates in this order."""
    i, f, g, o = np.split(W_i @ inputs + b_i + W_h @ h + b_h, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def matching_fce(weights, support, labels, query, n_way):
    """Support rows read forwards and backwards, each query read as often as there are support rows."""

    def read(rows, end):
        h = c = np.zeros(rows.shape[1])
        out = []
        for row in rows:
            h, c = gates(row, h, c, *(weights[f"reader.{part}_l0{end}"] for part in LSTM))
            out.append(h)
        return np.array(out)

    g = support + read(support, "") + read(support[::-1], "_reverse")[::-1]
    looked = []
    for f in query:
        h, c = f, np.zeros_like(f)
        for _ in g:
            a = softmax((g @ h)[None])[0]
            inputs = np.concatenate([f, a @ g])
            h, c = gates(inputs, h, c, *(weights[f"looker.{part}"] for part in LSTM))
            h = h + f
        looked.append(h)
    return matching(weights, g, labels, np.array(looked), n_way)


def emd_scores(classes, row, shape):
    """12.5/P Σ flow·cos of one query with each class, flows by Sinkhorn's iteration; and Σ flow ∂cos/∂class."""
    channels, side = shape
    u = row.reshape(channels, side * side).T
    scores, slopes = [], []
    for one in classes:
        v = one.reshape(channels, side * side).T
        a = np.maximum(u @ v.mean(0), 0) + 1e-3
        b = np.maximum(v @ u.mean(0), 0) + 1e-3
        a, b = len(u) * a / a.sum(), len(v) * b / b.sum()
        x, y = u - u.mean(1, keepdims=True), v - v.mean(1, keepdims=True)
        length = np.linalg.norm(y, axis=1, keepdims=True)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        similarity = x @ (y / length).T
        kernel, right = np.exp((similarity - 1) / 0.05), np.ones(len(v))
        for _ in range(100):
            left = a / (kernel @ right)
            right = b / (kernel.T @ left)
        flow = left[:, None] * kernel * right
        scores.append(12.5 / len(u) * np.sum(flow * similarity))
        # ∂cos(x, y)/∂y = (x̂ − cos ŷ)/‖y‖, and centring is its own transpose
        pull = (flow.T @ x - np.sum(flow * similarity, 0)[:, None] * y / length) / length
        slopes.append((12.5 / len(u) * (pull - pull.mean(1, keepdims=True))).T.ravel())
    return np.array(scores), np.array(slopes)


def deepemd(weights, support, labels, query, n_way, steps=2):
    """Class places from `steps` steps of gradient descent with momentum, then the transport of every query."""
    shape = 8, round((support.shape[1] / 8) ** 0.5)
    classes = class_means(support, labels, n_way)
    velocity = np.zeros_like(classes)
    for _ in range(steps if len(support) > n_way else 0):
        gradient = np.zeros_like(classes)
        for row, label in zip(support, labels):
            scores, slopes = emd_scores(classes, row, shape)
            gradient += (softmax(scores[None])[0] - one_hot([label], n_way)[0])[:, None] * slopes / len(support)
        velocity = 0.9 * velocity + 0.1 * gradient
        classes = classes - 0.1 * velocity
    return softmax(np.array([emd_scores(classes, row, shape)[0] for row in query]))


def leaky(x):
    return np.where(x > 0, x, 0.01 * x)


def gnn(weights, support, labels, query, n_way):
    """One graph per query, edge by edge."""
    answer = []
    for row in query:
        nodes = [norm(weights, "norm", weights["embed.weight"] @ x) for x in (row, *support)]
        nodes = [np.concatenate(pair) for pair in zip(nodes, [np.zeros(n_way), *one_hot(labels, n_way)])]
        for layer in range(3):
            together, name = [], f"adjacency.{layer}"
            for i, x in enumerate(nodes):
                scores = []
                for j, other in enumerate(nodes):
                    h = np.abs(x - other)
                    for number in range(0, 12, 3):
                        h = weights[f"{name}.layers.{number}.weight"] @ h
                        h = leaky(norm(weights, f"{name}.layers.{number + 1}", h))
                    scores.append(-np.inf if i == j else float(linear(weights, f"{name}.layers.12", h)[0]))
                seen = softmax(np.array([scores]))[0] @ np.array(nodes)
                together.append(np.concatenate([x, seen]))
            if layer == 2:
                answer.append(linear(weights, "out", together[0]))
            else:
                W = weights[f"layers.{layer}.weight"]
                new = [leaky(norm(weights, f"norms.{layer}", W @ x)) for x in together]
                nodes = [np.concatenate(pair) for pair in zip(nodes, new)]
    return softmax(np.array(answer))


def snail(weights, support, labels, query, n_way):
    """One sequence per query, step by step; an attention block, then two of (convolutions, attention)."""
    answer, order = [], np.argsort(labels, kind="stable")
    known = [np.concatenate([support[i], one_hot([labels[i]], n_way)[0]]) for i in order]
    for row in query:
        steps = [*known, np.concatenate([row, np.zeros(n_way)])]
        for block in range(5):
            name = f"blocks.{block}"
            if block % 2 == 0:
                q, k, v = ([linear(weights, f"{name}.{part}", x) for x in steps] for part in "qkv")
                seen = []
                for t in range(len(steps)):
                    scores = [q[t] @ k[i] / np.sqrt(len(k[i])) for i in range(t + 1)]
                    seen.append(softmax(np.array([scores]))[0] @ np.array(v[: t + 1]))
                steps = [np.concatenate(pair) for pair in zip(steps, seen)]
                continue
            for layer in range(int(np.ceil(np.log2(len(steps))))):
                new = []
                for t, x in enumerate(steps):
                    both = np.concatenate([steps[t - 2**layer] if t >= 2**layer else 0 * x, x])
                    f, g = (linear(weights, f"{name}.{part}.{layer}", both) for part in "fg")
                    new.append(np.tanh(f) * sigmoid(g))
                steps = [np.concatenate(pair) for pair in zip(steps, new)]
        answer.append(linear(weights, "out", steps[-1]))
    return softmax(np.array(answer))


def leo(weights, support, labels, query, n_way):
    """Gradients by hand: ∂loss/∂w_c = Σ_i (p_ic − y_ic) x_i, and through w = decode z."""
    x, y = unit(support), one_hot(labels, n_way)
    codes = [weights["encode.weight"] @ row for row in x]
    related = []
    for a in codes:
        total = 0
        for b in codes:
            h = weights["relate.0.weight"] @ np.concatenate([a, b])
            for number in (1, 2):
                h = weights[f"relate.{number}.weight"] @ np.maximum(h, 0)
            total = total + h / len(codes)
        related.append(total)
    z = class_means(np.array(related), labels, n_way)[:, :64]
    decode, counts = weights["decode.weight"][: x.shape[1]], y.sum(0)[:, None]

    def slope(w):
        return (softmax(x @ w.T) - y).T @ x / counts

    for _ in range(5):
        z = z - weights["latent_rate"] * (slope(z @ decode.T) @ decode)
    w = z @ decode.T
    for _ in range(5):
        w = w - weights["weight_rate"] * slope(w)
    return softmax(unit(query) @ w.T)


def tadam(weights, support, labels, query, n_way):
    """On rows that are conditioned already: −s ‖q − p‖²."""
    means = class_means(support, labels, n_way)
    return softmax(np.array([[-weights["scale"] * ((q - p) ** 2).sum() for p in means] for q in query]))
