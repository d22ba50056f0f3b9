"""Pictures to try operations on, and pillow's form of each operation."""

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps

from protoadapt.training.augment.ops import GRAY

FILL = (GRAY, GRAY, GRAY)


def affine(coefficients):
    return lambda picture, m: picture.transform(
        picture.size, Image.Transform.AFFINE, coefficients(m, picture.width), fillcolor=FILL
    )


PILLOW = {
    "identity": lambda picture, m: picture,
    "autocontrast": lambda picture, m: ImageOps.autocontrast(picture),
    "equalize": lambda picture, m: ImageOps.equalize(picture),
    "solarize": lambda picture, m: ImageOps.solarize(picture, m),
    "posterize": lambda picture, m: ImageOps.posterize(picture, int(m)),
    "contrast": lambda picture, m: ImageEnhance.Contrast(picture).enhance(m),
    "brightness": lambda picture, m: ImageEnhance.Brightness(picture).enhance(m),
    "color": lambda picture, m: ImageEnhance.Color(picture).enhance(m),
    "sharpness": lambda picture, m: ImageEnhance.Sharpness(picture).enhance(m),
    "rotate": lambda picture, m: picture.rotate(m, fillcolor=FILL),
    "shear_x": affine(lambda m, side: (1, m, 0, 0, 1, 0)),
    "shear_y": affine(lambda m, side: (1, 0, 0, m, 1, 0)),
    "translate_x": affine(lambda m, side: (1, 0, m * side, 0, 1, 0)),
    "translate_y": affine(lambda m, side: (1, 0, 0, 0, 1, m * side)),
}


def pictures(side, seed):
    """(8,3,S,S): noise, waves, a narrow range of values, few values, one value, black, white, one pixel off."""
    g = np.random.default_rng(seed)
    ramp = np.linspace(0, 1, side)
    waves = [np.sin(3 * a * ramp[:, None] + 2 * b * ramp + c) for a, b, c in g.uniform(-2, 2, (3, 3))]
    smooth = 127 + 120 * np.stack(waves)
    narrow = g.integers(90, 90 + g.integers(2, 100), (3, side, side))
    few = g.choice([0, 3, 77, 255], (3, side, side))
    flat = np.broadcast_to(g.integers(0, 256, (3, 1, 1)), (3, side, side))
    spot = flat.copy()
    spot[:, side // 2, side // 3] = 255 - spot[:, 0, 0]
    kinds = [g.integers(0, 256, (3, side, side)), smooth, narrow, few, flat, 0 * flat, 0 * flat + 255, spot]
    return torch.from_numpy(np.stack(kinds).astype(np.uint8))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def by_pillow(name, images, magnitude):
    out = [
        np.asarray(PILLOW[name](Image.fromarray(x.permute(1, 2, 0).numpy()), m.item()))
        for x, m in zip(images, magnitude)
    ]
    return torch.from_numpy(np.stack(out)).permute(0, 3, 1, 2)
