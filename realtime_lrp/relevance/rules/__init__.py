"""How relevance is shared: rules, composites, and where they may be rounded."""
