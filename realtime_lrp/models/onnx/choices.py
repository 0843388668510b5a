"""Where a file chooses at its end: the best classes, boxes that do not overlap.

What is chosen has no map of its own; what it is chosen from has.
"""

from collections.abc import Sequence
from typing import Any

CHOICES = (
    "ArgMax", "ArgMin", "BatchedNMS_TRT", "EfficientNMS_TRT", "Hardmax", "NonMaxSuppression",
    "NonZero", "TopK",
)  # fmt: skip
"""Operations that choose; TopK only where the numbers of what it has chosen are read."""

WEIGHTED = (
    "Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "Gemm", "MatMul",
    "MatMulNBits",
)  # fmt: skip
"""Operations with weights, if one of what they read does not depend on the picture."""


def before_choices(
    nodes: Sequence[Any], outputs: Sequence[str], pictures: str
) -> tuple[list[str], str]:
    """The tensors that a file's answer is chosen from, in place of outputs that are chosen.

    A choice that layers with weights follow, as of queries, is a part of the network.
    Nodes come after those that they read.

    Returns:
      names of tensors, those outputs first that are not chosen; the operation that chooses, or "".
    """
    of_picture = {pictures}
    chosen = set[str]()
    weighs = set[str]()
    used = {*outputs, *(name for node in nodes for name in node.input)}
    for node in nodes:
        branches = any(one.type == one.GRAPH for one in node.attribute)
        if branches or of_picture.intersection(node.input):
            of_picture.update(filter(None, node.output))
    for node in reversed(nodes):
        read = of_picture.intersection(node.input)
        weighted = node.op_type in WEIGHTED and len(read) < len([*filter(None, node.input[:2])])
        if weighted or weighs.intersection(node.output):
            weighs.update(read)
    how = ""
    ends = [one for one in outputs if one in of_picture]
    for node in nodes:
        read = of_picture.intersection(node.input)
        first = node.op_type in CHOICES and read and not weighs.intersection(node.output)
        if node.op_type == "TopK":  # else it sorts, or what is largest is summed
            first = first and node.output[-1] in used and len(node.output) > 1
        how = how or (node.op_type if first else "")
        if first or chosen.intersection(node.input):
            chosen.update(filter(None, node.output))
            ends += [one for one in node.input if one in read and one not in chosen]
    return list(dict.fromkeys(one for one in ends if one not in chosen)), how
