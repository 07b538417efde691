"""The service over HTTP: two routes written for speed, the rest in Starlette."""
