"""The operations that a SavedModel may consist of. Nothing else is ever run.

Each of them computes its outputs from its inputs and does nothing else. Add one only if it can
neither read nor write files, print, run Python, connect to anything, keep state or draw random
numbers.
"""

ROWS = (
    "Abs", "Acos", "Acosh", "Add", "AddV2", "Asin", "Asinh", "Atan", "Atanh", "AvgPool",
    "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "BiasAdd", "BroadcastTo", "Cast", "Ceil",
    "CheckNumerics", "ClipByValue", "ConcatV2", "Conv2D", "Conv3D", "Cos", "Cosh", "Cumsum",
    "DepthToSpace", "DepthwiseConv2dNative", "Digamma", "Div", "DivNoNan", "Einsum", "Elu",
    "EnsureShape", "Equal", "Erf", "Erfc", "Exp", "ExpandDims", "Expm1", "Floor", "FusedBatchNorm",
    "FusedBatchNormV2", "FusedBatchNormV3", "GatherV2", "Greater", "GreaterEqual", "Identity",
    "IdentityN", "Inv", "IsFinite", "IsInf", "IsNan", "LeakyRelu", "Less", "LessEqual", "Lgamma",
    "Log", "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr", "MatMul", "Max", "MaxPool", "Maximum",
    "Mean", "Min", "Minimum", "MirrorPad", "Mul", "Neg", "NotEqual", "OnesLike", "Pack", "Pad",
    "PadV2", "Pow", "PreventGradient", "RealDiv", "Reciprocal", "Relu", "Relu6", "Reshape",
    "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor", "ReverseV2", "Rint",
    "Roll", "Round", "Rsqrt", "ScaleAndTranslate", "SelectV2", "Selu", "Shape", "Sigmoid", "Sign",
    "Sin", "Sinh", "Slice", "Snapshot", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split",
    "SplitV", "Sqrt", "Square", "SquaredDifference", "Squeeze", "StopGradient", "StridedSlice",
    "Sub", "Sum", "Tan", "Tanh", "Tile", "Transpose", "Unpack", "ZerosLike",
)  # fmt: skip
"""Those with a row (`OPERATIONS` in relevance/reading/operations.py; a test compares the two)."""

OF_CONSTANTS = (
    "All", "Any", "ArgMax", "ArgMin", "BroadcastArgs", "Bucketize", "ConcatOffset", "Const",
    "DynamicStitch", "Fill", "FloorDiv", "FloorMod", "GatherNd", "InvertPermutation", "LinSpace",
    "OneHot", "PlaceholderWithDefault", "Prod", "Range", "Rank", "ScatterNd", "Select", "Size",
    "TruncateDiv", "Where",
)  # fmt: skip
"""Those that compute sizes, indices and masks: without a row, so they may only read constants."""

COMPUTING = frozenset((*ROWS, *OF_CONSTANTS))

CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
"""Those that call a function, which takes their place."""

DROPPED = frozenset(("Assert", "DisableCopyOnRead", "NoOp", "ReadVariableOp"))
"""Those that are left out where a function holds them; `ReadVariableOp` becomes the variable."""
