"""The page that an audit writes: its table, and how to read it."""

from __future__ import annotations

PAGE = """# Privacy audit

This page is written by `discreet audit --all --deep --out docs/audit.md` (`make audit`); nothing in it
is typed by hand. The quick form, `discreet audit --all`, takes a minute or two and is part of the tests.
This is the {effort} one.

{summary}.

{table}

## Columns

- **claimed** is the account's guarantee: the smallest epsilon that goes with **delta**.
- **exact** is the largest epsilon that was really found between two neighbouring worlds, at that delta.
  The code is run as it is, only its coins are taken into the audit's hands: every choice is made in
  every way, with the probability that the code's own scores and rates give it, and noise is moved number
  by number. Nothing is estimated. The neighbours are searched for (restarts, then one number of one
  person changed at a time), so a worse pair than the one found is possible; a smaller claim than *exact*
  is not.
- **tightness** is exact / claimed. 100 % means that no noise is wasted. Less than that has three causes:
  accounts of several adaptive choices are upper bounds; some accounts are made for long runs, and the
  settings here are small enough to be enumerated; and neighbours that are worse still may exist.
- The account must hold at every epsilon, not only at the claimed one: the exact delta is compared at
  several epsilons. Exceeding it anywhere is a failing verdict.
- **empirical lower bound** is what somebody who only sees outputs can prove: a lower bound on epsilon from
  repeated real runs, wrong with chance 1e-6. Outputs are the choices that were published, the noisy
  numbers that left, and what a learner showed. Scores are their exact likelihood ratios, and Fisher's
  discriminant for what was shown; thresholds are chosen on one half of the runs and tested on the other.
  It must never exceed the claim. It is far below it wherever a few thousand runs cannot tell rare events
  apart, and 0 where they tell nothing: at epsilon 1 and delta 1e-5 Gaussian noise takes some 100,000 runs.
- **sampler p** is the p-value of the real sampler under the probabilities that the exact part took it to
  have (chi-square for choices, Kolmogorov-Smirnov for noise, whose effect on releases is also checked
  number by number). It fails below 1e-6.
- **injected faults**: how many errors were put into the running code, one at a time, and noticed by the
  same audit: half the noise, a doubled rate, a forgotten charge, half the sensitivity, a lost sign, a
  person in two rounds or blocks, a secret sample that holds everybody, somebody's numbers shown past the
  gate. Outputs alone must also reject gross errors, noise left out or a rate a hundred times too large,
  by proving more than the claim. An audit that misses one of those that it lists fails.

## Limits of the audit

- Public coins (which rounds explore, which sets are sampled, how a point is rounded) protect nobody and
  are fixed here: everything is conditioned on one draw of them.
- Settings are small. That the same code is as private in large ones rests on the accounts' proofs, and
  on the tests of sums, gains and grids at any size.
- Decomposable picks together with what they gained (`release_gains`) are not audited: Laplace noise beside
  an account with a delta has no closed mixture. Each alone is.
- Timing, memory and whatever else a process gives away are not looked at; see the pages on privacy and
  pitfalls.
{unseen}"""
