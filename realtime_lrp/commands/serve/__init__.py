"""`serve`: the live viewer as a web page.

    render loop -- newest picture, news --> the exchange <-- messages -- server thread

The render loop is `commands.live`'s, with this page instead of a window or beside it; `web_page` is
the page's side of it. `messages` is what a page may send, and what it gets.
`visitors` explains the pictures of visitors' own cameras, in a thread of its own.

There is one view. Whoever has the token controls it; the watch token, which the page of the former
shows, lets others watch. Nothing here opens a file that a request names.
"""
