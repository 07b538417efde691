"""The parts of `discreet.evaluation.audit`, one idea per file."""
