"""Relevance written down as slowly and plainly as possible: one matrix for each layer, no tricks.

A linear layer is a matrix [inputs, outputs], filled entry by entry from the definition of the
layer; a rule is then a sum over single contributions. Nothing here comes from the package.
"""

import numpy as np

STABILISER = 1e-6


def stabilised(z):
    return z + np.where(z >= 0, STABILISER, -STABILISER)


def window_starts(size, window, stride, padding):
    """Output size and the padding before the first row, as TensorFlow defines SAME and VALID."""
    if padding == "valid":
        return (size - window) // stride + 1, 0
    out = -(-size // stride)
    return out, max((out - 1) * stride + window - size, 0) // 2


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
            channel = (k // (filters // groups)) * depth + d
            matrix[y, x, channel, i, j, k] += kernel[p, q, d, k]
    return matrix.reshape(height * width * channels, -1), (out_h, out_w, filters)


def zplus(matrix, a, relevance):
    """z+ of one picture: each contribution a_i w_ij that is positive, over their sum."""
    contributions = a[:, None] * matrix
    positive = np.maximum(contributions, 0)
    return (positive / stabilised(positive.sum(0)) * relevance).sum(1)


def zplus_input(matrix, support, relevance):
    """z+ at the input layer: a = 1 on the picture and 0 on padding."""
    return zplus(np.maximum(matrix, 0), support, relevance)


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
                parts = values / len(values) / stabilised(values.mean())
            else:
                parts = np.eye(len(values))[values.argmax()]
            for (y, x), part in zip(places, parts, strict=True):
                result[y, x, c] += part * relevance[i, j, c]
    return result
