"""Which version of vLLM broke a recipe: search over released versions, with evidence for each."""
