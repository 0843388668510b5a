"""The phones of the exhibit's visitors: a page that brings their picture to the exhibit's screen.

`turns` says whose turn it is, and is all that server and exhibit share. `app` is what the server
answers, `server` its start and end. The page is `page/phone.html`. Nothing here can control the
exhibit, and nothing is kept.
"""
