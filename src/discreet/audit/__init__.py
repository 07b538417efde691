"""The parts of `discreet.audit.run`, one idea per file."""
