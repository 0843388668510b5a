"""The explanation as a file: from the compiled graph of an explainer to ONNX, rows of a table."""
