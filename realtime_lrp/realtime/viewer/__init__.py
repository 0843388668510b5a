"""The live viewer without its window: state, events, and the picture as a function of both.

    key or mouse -> event -> handle(state, event) -> new state
    state + newest frame + newest maps -> scene -> Artist -> canvas

`state` and `events` are plain data. `handle` and the `actions` that it calls are pure functions.
`maps` makes the newest maps ready for drawing; `network_view` and `figures` turn state and maps
into a `Scene` for each network (several stand side by side). `view` runs the step of the render
loop. What has to happen outside (pause the source, save a snapshot, ...) is an `Order` in the
state, which whoever runs the loop carries out.
Nothing here opens a window. `now` is `time.monotonic()`; "" stands for no text.
"""
