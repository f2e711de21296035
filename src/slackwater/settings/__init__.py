"""Our own settings: every default, bound and unit, and the prose about it, in one place."""
