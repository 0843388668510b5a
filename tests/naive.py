"""Relevance written down as slowly and plainly as possible: one matrix for each layer, no tricks.

A linear layer is a matrix [inputs, outputs], filled entry by entry from the definition of the
layer; a rule is then a sum over single contributions. Nothing here comes from the package.
"""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

STABILISER = 1e-6


def assert_near(found, expected, share, name=""):
    """Arrays differ by no more than this share of the largest expected entry."""
    np.testing.assert_allclose(found, expected, atol=share * np.abs(expected).max(), err_msg=name)


def gradient_of(score, x):
    """The gradient of score(x), summed, by TensorFlow's tape."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = score(x)
    return tape.gradient(value, x).numpy()


def window_starts(size, window, stride, padding):
    """Output size and the padding before the first row, as TensorFlow defines SAME and VALID."""
    if padding == "valid":
        return (size - window) // stride + 1, 0
    out = -(-size // stride)
    return out, max((out - 1) * stride + window - size, 0) // 2


@dataclass
class Layer:
    """A layer with weights as one matrix [in, out].

    `connected` is 1 where an output reads an input; `bias` [out] is real, `absorbed` is what of it
    takes relevance; `support`, `low` and `high` [in] are for rules of the input layer.
    """

    matrix: np.ndarray
    connected: np.ndarray | None = None
    bias: np.ndarray | float = 0.0
    absorbed: np.ndarray | float = 0.0
    support: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def convolution_matrix(kernel, shape, strides=(1, 1), padding="valid", dilation=(1, 1), groups=1):
    """[H * W * C, H' * W' * K] and (H', W', K) of a convolution."""
    height, width, channels = shape
    rows, columns, depth, filters = kernel.shape
    window = (rows - 1) * dilation[0] + 1, (columns - 1) * dilation[1] + 1
    out_h, before_h = window_starts(height, window[0], strides[0], padding)
    out_w, before_w = window_starts(width, window[1], strides[1], padding)
    matrix = np.zeros((height, width, channels, out_h, out_w, filters))
    for i, j, p, q, d, k in np.ndindex(out_h, out_w, rows, columns, depth, filters):
        y = i * strides[0] - before_h + p * dilation[0]
        x = j * strides[1] - before_w + q * dilation[1]
        if 0 <= y < height and 0 <= x < width:
            matrix[y, x, (k // (filters // groups)) * depth + d, i, j, k] += kernel[p, q, d, k]
    return matrix.reshape(height * width * channels, -1), (out_h, out_w, filters)


def shared(contributions, bias, relevance, stabiliser=STABILISER):
    """Each contribution [in, out] over their sum at the output, times the output's relevance."""
    z = contributions.sum(0) + bias
    return (contributions / (z + np.where(z >= 0, stabiliser, -stabiliser)) * relevance).sum(1)


def epsilon(layer, a, relevance, value=1e-6):
    """Every contribution a_i w_ij counts."""
    return shared(a[:, None] * layer.matrix, layer.absorbed, relevance, value)


def zplus(layer, a, relevance):
    """Only contributions above zero count."""
    contributions = np.maximum(a[:, None] * layer.matrix, 0)
    return shared(contributions, np.maximum(layer.absorbed, 0), relevance)


def alpha_beta(layer, a, relevance, alpha=2, beta=1):
    """Alpha of the contributions above zero, less beta of those below."""
    contributions = a[:, None] * layer.matrix
    lowering = shared(np.minimum(contributions, 0), np.minimum(layer.absorbed, 0), relevance)
    return alpha * zplus(layer, a, relevance) - beta * lowering


def gamma(layer, a, relevance, value=0.25):
    """Contributions that push a real output the way it went count `1 + gamma` times."""
    contributions = a[:, None] * layer.matrix
    z = contributions.sum(0) + layer.bias
    result = np.zeros(len(a))
    for way in (1, -1):
        stronger = value * way * np.maximum(way * contributions, 0)
        bias = layer.absorbed + value * way * np.maximum(way * layer.absorbed, 0)
        result += shared(contributions + stronger, bias, relevance * (np.sign(z) == way))
    return result


def zbox(layer, a, relevance):
    """How far each input is from the end of its box that would lower the output most."""
    worst = np.where(layer.matrix > 0, layer.low[:, None], layer.high[:, None])
    return shared((a[:, None] - worst) * layer.matrix, 0, relevance)


def wsquare(layer, a, relevance):
    """By the squared weight alone, on the support."""
    return shared(layer.support[:, None] * layer.matrix**2, layer.absorbed**2, relevance)


def flat(layer, a, relevance):
    """Evenly among the connected inputs of the support."""
    return shared(layer.support[:, None] * layer.connected, 0, relevance)


def zplus_input(layer, a, relevance):
    """By the positive weight alone, on the support."""
    return zplus(layer, layer.support, relevance)


def pool_windows(shape, window, strides, padding):
    """For each output (i, j): the list of (y, x) inside the picture, row by row."""
    out_h, before_h = window_starts(shape[0], window[0], strides[0], padding)
    out_w, before_w = window_starts(shape[1], window[1], strides[1], padding)
    for i, j in np.ndindex(out_h, out_w):
        places = [
            (i * strides[0] - before_h + p, j * strides[1] - before_w + q)
            for p, q in np.ndindex(*window)
        ]
        yield (i, j), [(y, x) for y, x in places if 0 <= y < shape[0] and 0 <= x < shape[1]]


def max_pool(a, relevance, window, strides, padding, share):
    """Relevance through a max pool of one picture a [H, W, C], relevance [H', W', C]."""
    result = np.zeros_like(a)
    for (i, j), places in pool_windows(a.shape, window, strides, padding):
        for c in range(a.shape[2]):
            values = np.array([a[y, x, c] for y, x in places])
            if share:
                mean = values.mean()
                parts = values / len(values) / (mean + np.where(mean >= 0, STABILISER, -STABILISER))
            else:
                parts = np.eye(len(values))[values.argmax()]
            for (y, x), part in zip(places, parts, strict=True):
                result[y, x, c] += part * relevance[i, j, c]
    return result


def handed_to_pixels(model, x, start, rules, absorb=True, kept=None, end=6.0):
    """The map of a picture x through convolutions, max pools and dense layers with ReLUs between.

    `start` is the relevance of the answer; where biases absorb a share it gets the signs of the
    logits. `rules` are those of the layers with weights, with a number: "gamma 0.05". Relevance
    stays in the channels that are `kept`, layer -> channels. Pixels lie between -end and end.
    """
    a, passed = x.astype("float64"), []
    for layer in model.layers:
        if layer.weights:
            kernel, bias = (np.asarray(w, "float64") for w in layer.get_weights())
            matrix, ones, shape = kernel, np.ones_like(kernel), bias.shape
            if kernel.ndim == 4:
                matrix, shape = convolution_matrix(kernel, a.shape, padding=layer.padding)
                ones, _ = convolution_matrix(ones, a.shape, padding=layer.padding)
            bias, ends = np.tile(bias, matrix.shape[1] // len(bias)), np.full(a.size, end)
            linear = Layer(matrix, ones, bias, bias * absorb, np.ones(a.size), -ends, ends)
            logits = a.ravel() @ matrix + bias
            passed.append((layer, a, linear, shape))
            a = np.maximum(logits, 0).reshape(shape)
        elif hasattr(layer, "pool_size"):
            windows = [*pool_windows(a.shape, layer.pool_size, layer.strides, layer.padding)]
            shape = (*np.add(windows[-1][0], 1), a.shape[2])
            passed.append((layer, a, None, shape))
            a = np.reshape([np.max([a[at] for at in places], 0) for _, places in windows], shape)
    relevance, rules = start * np.sign(logits) if absorb else start, list(rules)
    for layer, a, linear, shape in reversed(passed):
        relevance = relevance.reshape(shape)
        if linear is None:
            size = layer.pool_size, layer.strides, layer.padding
            relevance = max_pool(a, relevance, *size, share=False)
        else:
            channels = (kept or {}).get(layer.name, range(shape[-1]))
            relevance = (relevance * np.isin(np.arange(shape[-1]), channels)).ravel()
            rule, *value = rules.pop().split()
            relevance = globals()[rule](linear, a.ravel(), relevance, *map(float, value))
    return relevance.reshape(x.shape)


A = [1.0, 2.0, 3.0]
KERNEL = [[1, 2], [3, -1], [0, 2]]
BIAS = [5, -7]
# contributions a_i w_ij: (1, 2), (6, -2), (0, 6); z without bias = (7, 6), real z = (12, -1)
BY_HAND = {
    "zplus": [1 / 7 + 2 * 2 / 8, 6 / 7, 2 * 6 / 8],
    "epsilon": [1 / 7 + 2 * 2 / 6, 6 / 7 - 2 * 2 / 6, 2 * 6 / 6],
    "alpha_beta": [2 * (1 / 7 + 2 * 2 / 8), 2 * (6 / 7) - 1 * (2 * -2 / -2), 2 * (2 * 6 / 8)],
    # the second output is negative: its negative contribution counts 5/4 times
    "gamma": [1 / 7 + 2 * 2 / 5.5, 6 / 7 + 2 * -2.5 / 5.5, 2 * 6 / 5.5],
    "wsquare": [1 / 10 + 2 * 4 / 9, 9 / 10 + 2 * 1 / 9, 2 * 4 / 9],
    "flat": [1.0, 1.0, 1.0],
    # low = 0, high = 4: (a - low) w for w > 0, (a - high) w for w < 0
    "zbox": [1 / 7 + 2 * 2 / 10, 6 / 7 + 2 * 2 / 10, 2 * 6 / 10],
    "zplus_input": [1 / 4 + 2 * 2 / 4, 3 / 4, 2 * 2 / 4],
}  # rule -> the relevance of three inputs under R = (1, 2), in fractions worked out on paper
