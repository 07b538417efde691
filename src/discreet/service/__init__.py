"""The live service: decisions over HTTP, learned from outcomes that are reported later.

``discreet serve`` starts it on one SQLite file; one setting moves it to PostgreSQL with several processes. It
builds on the library: learners draw and release through their gate, and the service ensures that nothing is
shown before it is committed, nothing is learned twice, and nothing that was acknowledged is lost.
"""
