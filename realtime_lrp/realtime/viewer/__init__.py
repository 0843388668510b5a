"""The live viewer without its window: state, events, and the picture as a function of both.

    key or mouse -> event -> handle(state, event) -> new state
    state + newest frame + newest maps -> scene -> Artist -> canvas

`handle` and the `actions` that it calls are pure functions of plain data. What happens outside
(pause the source, save a snapshot, ...) is an `Order` in the state, for whoever runs the loop.
`now` is `time.monotonic()`; "" stands for no text.
"""
