"""Online submodular minimisation."""
