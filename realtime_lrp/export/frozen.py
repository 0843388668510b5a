"""The frozen graph of an explanation: one picture, weights as constants, shapes computed."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.framework import convert_to_constants
from tensorflow.python.grappler import tf_optimizer

from realtime_lrp.relevance.network import onednn

PASSES = "constfold", "function", "dependency", "arithmetic", "constfold", "dependency"
OFF = 2


def frozen(function: Callable[..., Any], *inputs: tf.TensorSpec) -> tuple[tf.Graph, list[str]]:
    """Traces a function of tensors of fixed shapes, optimises its graph, and names its outputs."""
    with onednn.disabled():
        traced = tf.function(function, autograph=False).get_concrete_function(*inputs)
    constant = convert_to_constants.convert_variables_to_constants_v2(
        traced, lower_control_flow=False
    )
    settings = config_pb2.ConfigProto()
    rewriting = settings.graph_options.rewrite_options
    rewriting.optimizers.extend(PASSES)
    rewriting.meta_optimizer_iterations = 2
    rewriting.min_graph_nodes = -1
    rewriting.layout_optimizer = OFF
    described = tf.compat.v1.train.export_meta_graph(
        graph_def=constant.graph.as_graph_def(), graph=constant.graph
    )
    kept = described.collection_def["train_op"].node_list.value
    kept.extend(one.op.name for one in (*constant.outputs, *constant.inputs))
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(tf_optimizer.OptimizeGraph(settings, described), name="")
    return graph, [one.name for one in constant.outputs]
