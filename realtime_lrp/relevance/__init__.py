"""The mathematics: rules, layers, composites, targets and the explainer that joins them.

TensorFlow and Keras only: no OpenCV, no threads, no files but the SavedModel of an explainer.
Notation of the papers: a is a layer's input, w its weights, z its pre-activation, R the relevance
that arrives at its output.
"""
