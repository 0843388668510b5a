"""`serve`: the live viewer as a web page.

    capture thread -> [newest frame] -> relevance thread -> [newest map] -> render loop
                                                                             |      ^
                                                      newest picture and news|      |messages
                                                                             v      |
                                                                            the exchange
                                                                             |      ^
                                                                             v      |
                                                                           server thread

The render loop is `commands.live`'s, with this page instead of a window or beside it: `run`
starts it, `web_page` is the page's side of it. `exchange` is all that the two threads share.
`addresses` are those to open, `server` is the web server with its limits, `certificate` its HTTPS,
`app` the routes, `guard` the access checks, `tokens` who may do what, `kept` where token and
certificate are kept, `qr` addresses for phones. `messages` is what a page may send, `news` what it
gets. `visitors` explains the pictures of visitors' own cameras, in a thread of its own. `page/` is
the page itself. The viewer, its state and events, are the window's: `realtime.viewer`.

There is one view. Whoever has the token controls it; the watch token, which the page of the former
shows, lets others watch. Nothing here opens a file that a request names.
"""
