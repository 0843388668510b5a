"""`video --workers N` and `video --ray ADDRESS`: many and long recordings on Ray's workers.

    run ---> job ---------------------------> worker (one process each, anywhere)
              | filework: parts of recordings   plan, explain, draw: each decodes in a child process
              | crew: what workers do
              | kept: parts beside the film  <--fetching-- what they have made
              +-> publishing: joined, published --> results --> listing: table and page

Only `cluster` imports Ray, and it is loaded only where one of the two options is given. `child` is
what the child process does: it finds where a recording is cut, and joins parts. `remote` and
`stored` are for object stores.
"""
