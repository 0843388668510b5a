"""Which part of the picture each token of a transformer stands for.

The rows and columns of a convolution or a pool are cells, with numbers that are moved as the
network moves entries, and stay where it computes each token by itself. A dense layer whose tokens
hold the pixels of a patch each makes the patches its cells. A sum has the cells of its terms.
Nothing is concluded from numbers of tokens: what mixes tokens has no cells.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.network import traced_steps
from realtime_lrp.relevance.network.convolutions import Convolution, TransposedConvolution
from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.network.linear import Dense
from realtime_lrp.relevance.network.steps import Add, Elementwise, Move, Permute, Product, Reshape

BY_ENTRY = Elementwise | traced_steps.Stopped | traced_steps.Offset
SEVERAL = Add | Product | traced_steps.Quotient
SCALINGS = {"Mul", "Div", "RealDiv"}  # these multiply each entry by a constant
PRODUCTS = {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"}  # also with a constant query


class _Cells(NamedTuple):
    """The cell of each entry of a tensor, such as a patch of the picture."""

    size: tuple[int, int]  # rows and columns of the grid of cells
    # float32 [1, ...], 1 + row * columns + column; 0 for no cell, as of a class token or registers
    numbers: np.ndarray


class TokenGrids:
    """Follows the cells through a canonised network of known shapes, to the tensor number `end`."""

    def __init__(self, graph: Graph, end: int | None = None) -> None:
        self._graph = graph
        self._shapes = graph.shapes
        self._spatial = {0}
        # with what is computed of them, until it is a vector: that may become a new picture
        self._tokens = set[int]()
        self._cells: dict[int, _Cells] = {}
        for node in graph.nodes[:end]:
            if self._has_own_rows(node):
                self._spatial.add(node.output)
                continue
            if (cells := self._cells_behind(node)) is not None:
                self._cells[node.output] = cells
            axes = len(self._shapes[node.output])
            if self._are_in_order(node.output):
                self._spatial.add(node.output)
            elif axes > 2 and (axes != 4 or not self._tokens.isdisjoint(node.inputs)):
                self._tokens.add(node.output)

    def grid(self, number: int) -> np.ndarray | None:
        """The patch of each of the tokens [1, tokens, channels], row by row, -1 for none.

        Returns int32 [tokens]; None unless each patch has just one.
        """
        cells = self._cells.get(number)
        if cells is None or cells.numbers.ndim != 3 or (token := _of_one_cell(cells)) is None:
            return None
        numbers: np.ndarray = token.numbers.reshape(-1).astype(np.int32) - 1
        each = np.array_equal(np.sort(numbers[numbers >= 0]), np.arange(math.prod(cells.size)))
        return numbers if each else None

    def cells_of_patches(self, number: int) -> tuple[int, int] | None:
        """Rows and columns of the grid that the entries of a tensor belong to."""
        cells = self._cells_of(number)
        return None if cells is None else cells.size

    def has_places(self, number: int) -> bool:
        """Whether the channels of a tensor can be shown in the picture.

        It is feature maps; or tokens, one for each patch, on which the answer depends. Left out are
        queries, keys and values, parts of one attention, and what may be windows of tokens.
        """
        if len(self._shapes[number]) != 4:
            own = self.grid(number) is not None and not self._feeds_attention(number)
            return own and self.patches_matter(number)
        if number in self._spatial:
            return True
        if number in self._cells or number in self._tokens:
            return self._are_in_order(number)
        return not isinstance(self._graph.origin(number), Dense)

    def _are_in_order(self, number: int) -> bool:
        """Whether a tensor is known to be the rows and columns of one grid."""
        cells = self._cells.get(number)
        shape = self._shapes[number]
        if cells is None or len(shape) != 4 or shape[1:3] != cells.size:
            return False
        in_order = np.arange(1, math.prod(cells.size) + 1).reshape(1, *cells.size, 1)
        return bool((cells.numbers == in_order).all())

    def _feeds_attention(self, number: int) -> bool:
        """Whether only products of two matrices read a tensor, perhaps after it was moved."""
        left = {number}
        while left:
            readers = self._graph.readers(left.pop())
            moved = {
                reader.output for reader in readers if isinstance(reader.step, Move | BY_ENTRY)
            }
            products = (
                isinstance(reader.step, traced_steps.MatrixProduct)
                or (isinstance(reader.step, traced_steps.WeightedSum) and reader.kind in PRODUCTS)
                for reader in readers
                if reader.output not in moved
            )
            if not readers or not all(products):
                return False
            left |= moved
        return True

    def patches_matter(self, number: int) -> bool:
        """Whether the answer depends on tokens of patches, not only on a class token."""
        mixed: set[int] = set()
        apart = {number}
        for node in self._graph.behind(number):
            if not mixed.isdisjoint(node.inputs):
                mixed.add(node.output)
            elif not apart.isdisjoint(node.inputs):
                cells = self._cells.get(node.output)
                if cells is None:
                    mixed.add(node.output)
                elif cells.numbers.any():
                    apart.add(node.output)
        return self._graph.output in mixed | apart

    def _has_own_rows(self, node: Node) -> bool:
        """Whether a tensor is feature maps [1, rows, columns, channels] of a picture."""
        if len(self._shapes[node.output]) != 4:
            return False
        if isinstance(node.step, Convolution | TransposedConvolution):
            return self._tokens.isdisjoint(node.inputs)
        keeps = not isinstance(node.step, Reshape | Permute | traced_steps.Operation)
        return keeps and self._spatial >= set(node.inputs)

    def _cells_of(self, number: int) -> _Cells | None:
        if number not in self._spatial:
            return self._cells.get(number)
        _, rows, columns, _ = shape = self._shapes[number]
        numbers = np.arange(1, rows * columns + 1, dtype=np.float32).reshape(1, rows, columns, 1)
        return _Cells((rows, columns), np.broadcast_to(numbers, shape))

    def _cells_behind(self, node: Node) -> _Cells | None:
        """The cells of the output of a node; None where they are not known."""
        known = [cells for cells in map(self._cells_of, node.inputs) if cells is not None]
        if not known or any(cells.size != known[0].size for cells in known):
            return None
        shape = self._shapes[node.output]
        size = known[0].size
        numbers = [cells.numbers for cells in known]
        step = node.step
        if isinstance(step, Move):
            # What is moved changes its sign with the inputs. A constant that is added does not, nor
            # does the larger one of two different cells.
            if len(known) < len(node.inputs):
                return None
            with tf.init_scope():  # also while a function is traced
                there, back = (
                    step.forward(*(tf.constant(sign * number) for number in numbers)).numpy()
                    for sign in (1, -1)
                )
            return _Cells(size, np.where(there == -back, there, 0))
        scales = isinstance(step, traced_steps.WeightedSum) and node.kind in SCALINGS
        if isinstance(step, BY_ENTRY | SEVERAL) or scales:
            alike = [number for number in numbers if number.shape == shape]
            agree = all(one is alike[0] or np.array_equal(one, alike[0]) for one in alike)
            return _Cells(size, alike[0]) if alike and agree else None
        if isinstance(step, Dense) and len(shape) > 2:
            pixels = size == self._shapes[0][1:3]
            cells = _of_each_token(known[0]) if pixels else _of_one_cell(known[0])
            if cells is not None:
                return cells._replace(numbers=np.broadcast_to(cells.numbers, shape))
        return None


def _of_one_cell(cells: _Cells) -> _Cells | None:
    """The cell of each token, [..., 1]; None if a token has entries of several."""
    first = cells.numbers[..., :1]
    return cells._replace(numbers=first) if (cells.numbers == first).all() else None


def _of_each_token(cells: _Cells) -> _Cells | None:
    """The cells of tokens; where each holds a patch's pixels, the patches become the cells."""
    if (of_one_cell := _of_one_cell(cells)) is not None:
        return of_one_cell
    rows, columns = cells.size
    shape = cells.numbers.shape
    tokens = np.sort(cells.numbers.reshape(-1, shape[-1]).astype(int) - 1, axis=1)
    outside = tokens[:, -1] < 0  # a class token or the like
    y, x = np.divmod(tokens[~outside], columns)
    if not len(y) or (tokens[~outside] < 0).any():
        return None
    corners = np.stack([y.min(1), x.min(1)], 1)  # the first row and column of each patch
    sides = np.stack([y.max(1), x.max(1)], 1) - corners + 1
    side = sides[0]
    height, width = side
    pixels = (np.diff(tokens[~outside], axis=1) > 0).sum(1) + 1
    alike = (sides == side).all() and (pixels == height * width).all()
    if not alike or (corners % side).any():
        return None
    if rows % height or columns % width or (rows, columns) == (height, width):
        return None
    size = int(rows // height), int(columns // width)
    of_token = np.zeros(len(tokens), np.float32)
    of_token[~outside] = 1 + corners // side @ [size[1], 1]
    return _Cells(size, of_token.reshape(*shape[:-1], 1))
