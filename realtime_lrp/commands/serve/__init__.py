"""`serve`: the live viewer as a web page.

    render loop -- newest picture, news --> the exchange <-- messages -- server thread

The render loop is `commands.live`'s, with this page instead of a window or beside it. There is one
view. `visitors` explains the pictures of visitors' own cameras, in a thread of its own. Nothing
here opens a file that a request names.
"""
