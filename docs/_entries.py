"""What reference pages say besides docstrings: parameters that many classes share, what releases and
packages guarantee, and examples of classes that others make for you."""

from __future__ import annotations

# By the parameter's name, or by the class and the name.
PARAMETERS = {
    "n_items": "The number of items to choose from.",
    "k": "The number of items in a set.",
    "rounds": "The number of people who will come; None where a learner needs no horizon.",
    "budget": "A `Budget`, a share of one, or a `Gate`: what may be spent on each person.",
    "calibration": '"tight" computes the noise from exact accounts; "published" takes a paper\'s constants.',
    "seed": "None draws secure randomness; a number makes a run reproducible, and is marked as not private.",
    "labels": "Names of the items, by which they can be given and are shown.",
    "bound": "The public upper bound of one person's values.",
    "constraint": "Which sets are allowed; a number stands for `Cardinality`.",
    "include": "Public items that are chosen from the start.",
    "exclude": "Public items that cannot be chosen.",
    "sums": "How private running sums are factorized.",
    "candidates": "Public: the only ones that can be chosen, so that noise decides among fewer.",
    "start": "Released estimates of an earlier learner to begin with.",
    "epsilon": "The privacy budget of each person; math.inf for a choice without privacy.",
    "delta": "What a probability may exceed exp(epsilon) times the other one by.",
    "domain": "The convex set of decisions, of `discreet.domains`.",
    "clip": "True clips what is out of bounds; False refuses it.",
    "noise": "The distribution of the noise.",
    "rate": "How strongly draws follow the scores; computed where it is None.",
    "min_separation": "The least number of rounds between two visits of one person, where several count.",
    "first_window": "The number of people before the first release.",
    "make": "A function of an expert's share of the budget that makes the expert.",
    "block": "The number of rounds in which a set stays the same.",
    "settings": "The frozen settings of the learner, a `LearnerSettings`.",
    "share": "The share of a budget that may be spent, with its gate.",
    "method": "Which of the algorithms is used.",
    "neighbours": 'Where the guarantee holds: "replace" (one row for another) or "add_remove".',
    "max_rows_per_person": "How many rows one person can have; the guarantee is for all of them.",
    "random_state": "None draws secure randomness; a number makes a fit reproducible, and not private.",
    "upper": "The upper corner of the box of points; the lower one is 0.",
    "dimension": "The number of coordinates of a vector.",
    "norm_bound": "The largest L2 norm of one vector.",
    "box": "The smallest and the largest value of each coordinate.",
    "nonzeros": "How many coordinates of one vector can differ from 0.",
    "people_per_vector": "How many people one vector is made of, at most.",
    "variance_reduction": "Whether estimates of a tree are combined so that their variance is smallest.",
    "label": "The name of the release in the account.",
    "event": "The mechanism of the release, an `Event`.",
    "ledger": "Where charges are kept; None keeps them in memory.",
    "reproducible": "Whether a seed was used, so that the noise can be computed by anybody who knows it.",
    "definition": 'The privacy definition that is kept to: "pure", "zcdp" or "gdp".',
    "sensitivity": "How far one person can move what is released.",
    "sigma": "The standard deviation of the noise.",
    "scale": "The scale of the noise.",
    "range": "The most by which one person can change the difference of two scores.",
    "count": "The number of releases of this kind that one person's data enters.",
    "group": "The disjoint group of people the release is about; () for everybody.",
    "entry": "The kind of release, an `Entry`.",
    "owner": "The id of the learner that spent it, or None.",
    "path": "The file or folder.",
    "items": "The catalogue: every item, in the order of its number.",
    "people": "The people: a population, or their identities in the order of their rows.",
    "indptr": "Where each person's entries begin and end in `indices`.",
    "indices": "The item number of each entry.",
    "weights": "The weight of each entry; None where each is 1.",
    "AuditExample.arguments": "What comes before the budget in the learner's signature.",
    "AuditExample.options": "Keyword arguments of the learner.",
    "AuditExample.words": "What the audit's report calls the setting.",
    "Guarantee.caveats": "Sentences about what the account does not cover.",
    "Guarantee.note": "A remark of the learner that belongs to its account.",
    "Released.people": "How many people the released sums were about.",
    "Segments.make": "A function that makes the learner of one segment.",
    "MultilinearExtension.seed": "Seeds the sets that are sampled where there is no closed form.",
    "PureRelease.epsilon": "The epsilon that was proved.",
    "ApproximateRelease.epsilon": "The epsilon that was proved.",
    "ApproximateRelease.delta": "The delta that was proved.",
    "Gate.budget": "The `Budget` that everything released through it keeps to.",
    "Share.budget": "The `Budget` that it is a part of.",
    "Account.budget": "The `Budget` that limits the releases.",
    "Guarantee.budget": "The `Budget` that limits the releases.",
    "AuditExample.budget": "The `Budget` of the learner.",
    "Periods.budget": "The `Budget` of each period.",
    "PrivateGreedy.sensitivity": "How far one person can move the value of any set, for one function of all.",
    "Arcs.tail": "The item each arc leaves.",
    "Arcs.head": "The item each arc enters.",
    "Arcs.arc": "The arcs of each person, one person after the other.",
    "GraphCut.directed": "Whether an arc counts in one direction only.",
    "Mixture.parts": "Pairs of a weight and a population.",
    "Decomposition.sets": "The feasible sets, as sorted item numbers.",
    "Matroid.nothing": "What the refusal says where no item can be chosen.",
    "BudgetExceeded.preview": "What the refused release would have done.",
    "Preview.asked": "The release that was asked for.",
    "Preview.limit": "The budget's epsilon.",
    "Preview.fits": "Whether it would be allowed.",
    "Periods.failure": "The part of delta that is set aside, as for `Gate`.",
    "PublicRandomness.words": "The source of random words.",
    "Release.source": "The randomness that draws come from.",
    "Release.alive": "Called before each draw; raises where nothing may be drawn any more.",
    "Releases.above": "The releases about everybody that come on top of those of one group.",
    "Remaining.epsilon": "The pure epsilon that still fits.",
    "Remaining.rho": "The zCDP that still fits.",
    "Remaining.mu": "The Gaussian DP that still fits.",
    "Remaining.delta": "The delta that is left.",
    "ScoreChange.each": "The most by which one person changes each score.",
    "ScoreChange.one_directional": "Whether one person moves all scores in the same direction.",
    "Share.fraction": "The part of the budget, as an exact fraction.",
    "Share.own_gate": "Whether the gate was made for this share alone.",
    "VectorBounds.norm": "Which norm bounds are in: 1 (L1) or 2 (L2).",
    "Bucket.keys": "The pseudonym of each person.",
    "Bucket.ends": "Where each person's entries end.",
    "Bucket.items": "The item number of each entry.",
    "Store.manifest": "What the folder says about itself: sizes, columns, checksums.",
}

# By the class, or by the package for all its classes whose docstrings state none.
GUARANTEES = {
    "GaussianNoise": "One release is Gaussian DP with mu = sensitivity / sigma, zCDP with rho = mu^2 / 2.",
    "GroupGaussianNoise": "All rounds of a person together, at most `participations`, are Gaussian DP with"
    " mu = sensitivity / sigma.",
    "LaplaceNoise": "One release is pure DP with epsilon = sensitivity / scale, in the L1 norm.",
    "SphericalLaplaceNoise": "One release is pure DP with epsilon = sensitivity / scale, in the L2 norm.",
    "ExponentialChoice": "One choice is pure DP with epsilon = rate * range, and zCDP with rho ="
    " (rate * range)^2 / 8.",
    "PermuteAndFlip": "One choice is pure DP with epsilon = rate * range.",
    "ExactChoices": "All choices together are (epsilon, delta)-DP, with the epsilon that `loss` computes.",
    "PureRelease": "The one that its caller has a proof of: it is charged, and not checked.",
    "ApproximateRelease": "The one that its caller has a proof of: it is charged, and not checked.",
    "ConcentratedRelease": "The one that its caller has a proof of: it is charged, and not checked.",
    "objectives": "An objective releases nothing. What it computes is true, not private, and for learners and"
    " selectors: they release what they make of it through their gate.",
    "constraints": "A constraint holds public facts and sees nobody's data. What it makes of a release is"
    " post-processing, which costs no privacy.",
}

EXAMPLES = {
    "AuditExample": """
>>> import discreet as dc
>>> from discreet.online import AuditExample, PhasedSelector
>>> small = AuditExample((2, 1), dc.Budget(1.0), {"window": 1}, words="1 of 2 items", rows=2, columns=2)
>>> small.make(PhasedSelector, seed=0).n_items
2
""",
    "Guarantee": """
>>> import discreet as dc
>>> account = dc.online.PhasedSelector(3, 1, dc.Budget(1.0), seed=0).privacy  # before the first round
>>> isinstance(account, dc.online.Guarantee), account.epsilon(), account.spent.epsilon()
(True, 1.0, 0.0)
""",
    "Account": """
>>> import discreet as dc
>>> gate = dc.Gate(dc.Budget(1.0))
>>> _ = gate.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
>>> isinstance(gate.spent, dc.privacy.Account), gate.spent.epsilon()
(True, 0.5)
""",
    "Constraint": """
>>> from discreet.constraints import Cardinality, Constraint
>>> two = Cardinality(2, 4)
>>> isinstance(two, Constraint), two.contains([0, 3]), two.addable([0, 3]).tolist()
(True, True, [False, False, False, False])
""",
    "OnlineLearner": """
>>> import discreet as dc
>>> learner = dc.online.PhasedSelector(3, 1, dc.Budget(1.0), seed=0)
>>> isinstance(learner, dc.online.OnlineSelector), isinstance(learner, dc.online.OnlineLearner)
(True, True)
>>> shown = learner.choose()
>>> learner.learn(items=[2])
""",
    "Population": """
>>> import discreet as dc
>>> people = dc.objectives.Coverage([[1, 0, 1], [0, 1, 1]])  # a Population of two people
>>> len(people), people.n_items, people.value([0]), people[1].value([2])
(2, 3, 0.5, 1.0)
""",
    "State": """
>>> import discreet as dc
>>> state = dc.objectives.State(dc.objectives.Coverage([[1, 0, 1], [0, 1, 1]]))
>>> state.add(0), state.gains().tolist(), state.value
(0.5, [0.0, 0.5, 0.5], 0.5)
""",
    "ContinuousPopulation": """
>>> import discreet as dc
>>> people = dc.objectives.MultilinearExtension(dc.objectives.Coverage([[1, 0], [0, 1]]))
>>> isinstance(people, dc.objectives.ContinuousPopulation), people.value([0.5, 1.0])
(True, 0.75)
""",
    "Decomposition": """
>>> import discreet as dc
>>> found = dc.constraints.Cardinality(2, 3).decompose([1.0, 0.5, 0.5])
>>> type(found).__name__, [items.tolist() for items in found.sets], found.weights.tolist()
('Decomposition', [[0, 1], [0, 2]], [0.5, 0.5])
""",
    "ProjectedPoint": """
>>> import discreet as dc
>>> point = dc.constraints.Cardinality(1, 3).project_euclidean([2.0, 0.5, 0.0])
>>> type(point).__name__, point.tolist(), point.gap
('ProjectedPoint', [1.0, 0.0, 0.0], 0.0)
""",
    "BudgetExceeded": """
>>> import discreet as dc
>>> from discreet.privacy import BudgetExceeded, Preview, PureRelease, Release, Remaining
>>> gate = dc.Gate(dc.Budget(1.0))
>>> isinstance(gate.reserve(PureRelease(0.25)), Release)
True
>>> gate.remaining == Remaining(epsilon=0.75, rho=0.0, mu=0.0, delta=0.0)
True
>>> asked = gate.preview(PureRelease(2.0))
>>> isinstance(asked, Preview), asked.fits, asked.after
(True, False, 2.25)
>>> try:
...     gate.reserve(PureRelease(2.0))
... except BudgetExceeded as refused:
...     print(refused.spent, refused.largest)
0.25 PureRelease(epsilon=Fraction(3, 4))
""",
    "MemoryLedger": """
>>> import discreet as dc
>>> from discreet.privacy import Charge, Entry, Ledger, LedgerConflict, MemoryLedger, PureRelease
>>> ledger: Ledger = MemoryLedger()
>>> for release in (0.25, 0.5):  # two gates about the same people
...     _ = dc.Gate(dc.Budget(1.0), ledger=ledger).reserve(PureRelease(release), label="a release")
>>> ledger.version, dc.Gate(dc.Budget(1.0), ledger=ledger).remaining.epsilon
(2, 0.25)
>>> try:
...     ledger.append(Charge((), Entry("late", PureRelease(0.1)), 1), expected_version=1)
... except LedgerConflict as conflict:
...     print(conflict)
the ledger is at version 2, not 1
""",
    "Event": """
>>> import discreet as dc
>>> from discreet import privacy
>>> events = [
...     privacy.LaplaceNoise(sensitivity=1.0, scale=4.0),
...     privacy.SphericalLaplaceNoise(sensitivity=1.0, scale=4.0),
...     privacy.GaussianNoise(sensitivity=1.0, sigma=4.0),
...     privacy.GroupGaussianNoise(sensitivity=1.0, sigma=4.0, participations=2),
...     privacy.PermuteAndFlip(rate=0.1, range=2.0),
...     privacy.PureRelease(epsilon=0.2),
...     privacy.ApproximateRelease(epsilon=0.2, delta=1e-7),
...     privacy.ConcentratedRelease(rho=0.01),
... ]
>>> for event in events:  # of Event
...     gate = dc.Gate(dc.Budget(5.0, 1e-6, max_rounds_per_person=2))
...     after = gate.preview(event).after
...     print(f"{type(event).__name__}: epsilon {after:.2f}")
LaplaceNoise: epsilon 0.50
SphericalLaplaceNoise: epsilon 0.50
GaussianNoise: epsilon 2.25
GroupGaussianNoise: epsilon 1.06
PermuteAndFlip: epsilon 0.40
PureRelease: epsilon 0.40
ApproximateRelease: epsilon 0.40
ConcentratedRelease: epsilon 1.30
""",
    "Releases": """
>>> from discreet.privacy import Entry, PureRelease, Releases
>>> releases = Releases()
>>> releases.add(Entry("count", PureRelease(0.25)), 2)
>>> float(releases.loss.pure)
0.5
""",
    "Participation": """
>>> import discreet as dc
>>> from discreet.privacy import Participation
>>> Participation(times=3, apart=100)  # at most 3 visits, at least 100 rounds from each other
Participation(times=3, apart=100)
""",
    "PeriodClosed": """
>>> import discreet as dc
>>> from discreet.privacy import PeriodClosed, Periods, PureRelease
>>> periods = Periods(dc.Budget(1.0))
>>> for month in ("2026-11", "2026-12"):
...     _ = periods.gate(month).reserve(PureRelease(0.5))
>>> try:
...     periods.gate("2026-11").reserve(PureRelease(0.5))
... except PeriodClosed:
...     print("refused")
refused
""",
    "Randomness": """
>>> from discreet.privacy import Randomness, SecureRandomness
>>> isinstance(SecureRandomness(), Randomness)
True
""",
    "RunningSum": """
>>> import discreet as dc
>>> for method in ("sqrt", "tree"):  # two kinds of RunningSum
...     gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)  # a seed for this page
...     clicks = gate.running_sum(dimension=2, rounds=1000, box=(0.0, 1.0), method=method)
...     print(type(clicks).__name__, clicks.add([1.0, 0.0]).shape, gate.spent.epsilon() <= 1.0)
FactorizedSum (2,) True
TreeSum (2,) True
""",
    "Share": """
>>> import discreet as dc
>>> gate = dc.Gate(dc.Budget(1.0))
>>> first, second = gate.split(2)
>>> type(first).__name__, float(first.epsilon)
('Share', 0.5)
""",
    "Bucket": """
>>> import tempfile
>>> from discreet.data import Bucket, prepare
>>> table = {"user": ["ann", "bob"], "page": ["tea", "jam"]}
>>> with tempfile.TemporaryDirectory() as folder:
...     store = prepare(table, person="user", item="page", items=["jam", "tea"], to=f"{folder}/people")
...     print(sum(len(bucket) for bucket in store.buckets()))
2
""",
}
