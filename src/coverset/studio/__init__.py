"""The studio: a local web app that shows what runs below a directory do, and lets a person be the partner.

`files`, `logs`, `catalogue` and `records` read what the commands wrote, without JAX, so that the first page does not
wait for it. `boards`, `match`, `players`, `trials` and `replays` simulate; `engine` imports them in the background.
`messages`, `authority`, `guard`, `connections` and `app` face the browser. The page itself is plain files in `static`.
"""
