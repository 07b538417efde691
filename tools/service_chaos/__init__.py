"""Crash testing of the service: nothing acknowledged is lost, nothing learned twice, nothing shown unpaid.

Clients ask for decisions and report outcomes, over HTTP, again and again until they hear an answer. The
service is killed (SIGKILL) at named points of its work and at random, and started again on the same store. A
witness in the service's process writes down, in the transactions of the worker, what was learned. Looked at:

- every outcome that was acknowledged as recorded was learned once, with the body that was sent;
- no decision was learned from twice;
- no decision was served twice;
- whatever was served names a release that is in the log (or the beginning), whose hashes form a chain;
- a person was learned from no more often than allowed, across crashes;
- what was charged is what the account says, and no more than the budget; the state is that of the last
  release;
- no raw outcome is left once everything is aggregated.
"""
