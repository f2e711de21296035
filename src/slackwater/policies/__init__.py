"""Pure: one feature each. A snapshot in, a decision out; policies never import each other."""
