"""`export`: the explanation as one ONNX file, or as a web page that computes it."""
