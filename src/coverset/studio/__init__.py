"""The studio: a local web app to inspect runs below a directory and to play with their policies.

`files`, `logs`, `catalogue` and `records` read run files without JAX, so that the first page loads quickly. `boards`,
`match`, `partners`, `trials` and `replays` simulate; `engine` imports them in the background. `messages`, `authority`,
`guard`, `connections` and `app` handle HTTP. `static` holds the pages.
"""
