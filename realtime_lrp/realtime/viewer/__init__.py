"""The live viewer without its window: state, events, and the picture as a function of both.

    sender (keyboard, mouse, web page) -> event -> handle(state, event) -> new state
    state + newest frame + newest map  -> compose -> scene -> Artist -> canvas

`state` and `events` are plain data; `handle` and the `actions` that it calls are pure functions;
`compose` and `figures` turn the state and the newest map into a `Scene`. `view` runs the step of
the render loop. What happens outside (pause the source, save a snapshot, ...) is a `Command` in the
state, carried out by whoever runs the loop. Nothing here opens a window.
"""
