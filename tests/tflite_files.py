"""Small TensorFlow Lite files, made by its converter, and what its interpreter computes."""

import warnings

import flatbuffers
import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

with warnings.catch_warnings(action="ignore"):  # both move to the package ai_edge_litert
    Interpreter, Converter = tf.lite.Interpreter, tf.lite.TFLiteConverter

KINDS = ("float32", "float16", "dynamic", "int8", "uint8")


def converted(path, source, kind="float32", pictures=()):
    """Converts a Keras model, or a function with its shape, and writes the file; returns its path.

    Whole numbers of a quantised file have the ranges that they have for `pictures`.
    """
    if isinstance(source, tuple):
        function, shape = source
        traced = tf.function(function).get_concrete_function(tf.TensorSpec(shape, tf.float32))
        converter = Converter.from_concrete_functions([traced], tf.Module())
    else:
        converter = Converter.from_keras_model(source)
    if kind != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if kind in ("int8", "uint8"):
        converter.representative_dataset = lambda: ([one[None]] for one in pictures)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.as_dtype(kind)
    with warnings.catch_warnings(action="ignore"):
        path.write_bytes(converter.convert())
    return str(path)


def interpreted(path, pictures):
    """What TensorFlow Lite computes, [pictures, entries], as floating numbers."""
    with warnings.catch_warnings(action="ignore"):
        interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    (read,), made = interpreter.get_input_details(), interpreter.get_output_details()[0]
    found = []
    for one in pictures:
        value = one[None]
        if read["dtype"] != np.float32:
            (scale, zero), ends = read["quantization"], np.iinfo(read["dtype"])
            value = np.clip(np.round(value / scale + zero), ends.min, ends.max)
        interpreter.set_tensor(read["index"], value.astype(read["dtype"]))
        interpreter.invoke()
        value = interpreter.get_tensor(made["index"]).ravel().astype(np.float32)
        scale, zero = made["quantization"]
        found.append((value - zero) * scale if scale else value)
    return np.array(found)


def changed(path, change, to=None):
    """Writes the file again, or another one, after a change of its object; returns the path."""
    with open(path, "rb") as file:
        model = schema.ModelT.InitFromPackedBuf(file.read())
    change(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    with open(to or path, "wb") as file:
        file.write(builder.Output())
    return str(to or path)


def _table(builder, **fields):
    """A table of a flatbuffer: `a3=offset` has a table or list in field 3, `b0=1` a byte in 0."""
    builder.StartObject(8)
    for name, value in fields.items():
        slot = int(name[1:])
        if name[0] == "a":
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        else:
            builder.PrependByteSlot(slot, value, 0)
    return builder.EndObject()


def _tables(builder, *tables):
    builder.StartVector(4, len(tables), 4)
    for one in reversed(tables):
        builder.PrependUOffsetTRelative(one)
    return builder.EndVector()


def with_normalisation(path, mean, deviation):
    """Adds the metadata that TensorFlow's tools write: (picture - mean) / deviation."""
    b = flatbuffers.Builder(256)
    numbers = [b.CreateNumpyVector(np.float32(one)) for one in (mean, deviation)]
    options = _table(b, a0=numbers[0], a1=numbers[1])
    unit = _table(b, b0=1, a1=options)
    tensor = _table(b, a4=_tables(b, unit))
    graph = _table(b, a2=_tables(b, tensor))
    b.Finish(_table(b, a3=_tables(b, graph)), file_identifier=b"M001")

    def add(model):
        model.buffers.append(schema.BufferT(data=np.frombuffer(b.Output(), np.uint8)))
        found = schema.MetadataT(name="TFLITE_METADATA", buffer=len(model.buffers) - 1)
        model.metadata = [*(model.metadata or []), found]

    return changed(path, add)
